// SPDX-License-Identifier: Apache-2.0
// What the api knows of CUDA: devices, pointers, scratch, implementations. No CUDA type stands here, so that a build without a
// toolkit answers the same questions (src/cuda/absent).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/implementation.hpp"

namespace dhyan::cuda {

// Scratch that a caller brings is aligned to this.
inline constexpr std::size_t kScratchAlignment = 256;

struct Device {
  std::int32_t index = 0;
  std::string name;
  std::int64_t memory_bytes = 0;
  std::int32_t major = 0, minor = 0;  // compute capability
  std::int32_t multiprocessors = 0;
};

// Whether this build has CUDA at all.
bool built();

// Why this process can use no CUDA device; empty when there is one. Found out once.
const std::string& unavailable();

// Empty when unavailable; those that are too old for dhyan are among them.
std::span<const Device> devices();

// Why a device cannot be used; empty when it can.
std::string refusal(std::int32_t index);

// An optional library, or a part of CUDA.
struct Library {
  const char* name;
  std::string version, path;  // each may be empty
  std::string reason;         // why it is not there; empty: it is
};
std::vector<Library> libraries();

// Rows of the table of implementations, one per implementation.
std::span<const core::ImplementationEntry* const> implementations();

// Throws Error unless the pointer is memory of this device.
void check_pointer(const void* pointer, const char* name, std::int32_t device);
// Throws Error when the stream belongs to another device.
void check_stream(void* stream, std::int32_t device);

// Scratch for what is launched on the stream while this lives, from the library's own stream-ordered pool. Throws Error: out of
// memory, with the bytes, or a stream that is being captured (its graph outlives this).
class Scratch {
 public:
  Scratch(std::size_t bytes, std::int32_t device, void* stream);
  ~Scratch() { release(); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  void* data() const { return data_; }

 private:
  void release();

  void* data_ = nullptr;
  std::int32_t device_;
  void* stream_;
};

// Elements in a device's memory; strides in elements, in the order of the shape that goes with it.
struct View {
  void* data;
  dhyan_dtype dtype;
  std::array<std::int64_t, DHYAN_MAX_RANK> strides;
};
using Shape = std::array<std::int64_t, DHYAN_MAX_RANK>;

// Zeros into every element, of which there is one at least; sizes that are missing are 1.
void zero(const Shape& shape, const View& view, std::int32_t device, void* stream);

// dhyan_convert and dhyan_merge of tensors that were checked. Sizes that are missing are 1.
void convert(const Shape& shape, const View& source, const View& destination, std::int32_t device, void* stream);
// The shape is batch, token, head, element; views of lse have strides in this order too.
struct Parts {
  View out_a, lse_a, out_b, lse_b, out, lse;
};
void merge(const Shape& shape, const Parts& parts, std::int32_t device, void* stream);

// Gives the pools' unused memory back to the devices, and cuDNN's plans that nobody holds.
void trim();

}  // namespace dhyan::cuda

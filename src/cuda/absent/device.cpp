// SPDX-License-Identifier: Apache-2.0
// The answers of a build without CUDA.
#include "cuda/device.hpp"

namespace dhyan::cuda {

bool built() { return false; }

const std::string& unavailable() {
  static const std::string reason = "this build of dhyan has no CUDA support";
  return reason;
}

std::span<const Device> devices() { return {}; }
std::string refusal(std::int32_t) { return unavailable(); }

std::vector<Library> libraries() {
  std::vector<Library> all;
  for (const char* name : {"CUDA runtime", "cuBLASLt", "cuDNN", "NCCL"}) {
    all.push_back({name, "", "", "not built: this build has no CUDA support"});
  }
  return all;
}

std::span<const core::ImplementationEntry* const> implementations() { return {}; }

// No view of a device passes validation here, so that the rest is never reached.
void check_pointer(const void*, const char*, std::int32_t) {}
void check_stream(void*, std::int32_t) {}
Scratch::Scratch(std::size_t, std::int32_t device, void* stream) : device_(device), stream_(stream) {}
void Scratch::release() {}
void zero(const Shape&, const View&, std::int32_t, void*) {}
void convert(const Shape&, const View&, const View&, std::int32_t, void*) {}
void merge(const Shape&, const Parts&, std::int32_t, void*) {}
void trim() {}

}  // namespace dhyan::cuda

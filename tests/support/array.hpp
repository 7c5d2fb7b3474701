// SPDX-License-Identifier: Apache-2.0
// Tensors of up to four dimensions that own their memory, in any layout, with poison wherever nothing may be read or written.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/problem.hpp"

namespace dhyan::testing {

using Shape = std::array<std::int64_t, 4>;

// How a tensor lies in memory.
enum class Layout {
  contiguous,
  heads_first,   // the middle two dimensions swapped: BNTH seen as BTNH
  gaps,          // room after every row, head and batch entry
  shared_batch,  // stride 0 over the batch (inputs)
  unaligned,     // the least alignment there may be, odd strides
  far_batches,   // batch entries more than 2^31 elements apart, in memory that is never touched between them
  far_tokens,    // tokens 2^29 elements apart
};
const char* name_of(Layout layout);

class Array {
 public:
  Array() = default;  // absent
  // Dimensions of size 1 marked in `broadcast` get stride 0.
  Array(dhyan_dtype dtype, const Shape& shape, Layout layout, const std::array<bool, 4>& broadcast = {});

  bool present() const { return dtype_ != DHYAN_NONE; }
  dhyan_dtype dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  const Shape& strides() const { return strides_; }
  std::int32_t alignment() const { return alignment_; }
  std::int64_t size() const { return shape_[0] * shape_[1] * shape_[2] * shape_[3]; }
  void* data() { return present() ? bytes_.get() + begin_ : nullptr; }
  const void* data() const { return present() ? bytes_.get() + begin_ : nullptr; }

  // All of the memory behind it; data() lies `begin()` bytes inside.
  std::byte* storage() { return bytes_.get(); }
  const std::byte* storage() const { return bytes_.get(); }
  std::int64_t storage_bytes() const { return total_; }
  std::int64_t begin() const { return begin_; }

  std::int64_t offset(std::int64_t i, std::int64_t j, std::int64_t k, std::int64_t l) const {
    return i * strides_[0] + j * strides_[1] + k * strides_[2] + l * strides_[3];
  }
  // Integers and booleans too.
  void set(std::int64_t i, std::int64_t j, std::int64_t k, std::int64_t l, double x);
  double get(std::int64_t i, std::int64_t j, std::int64_t k, std::int64_t l) const;

  // All elements in the order of the dimensions.
  std::vector<double> values() const;
  void assign(const std::vector<double>& values);
  template <class Make>
  void fill(const Make& make) {
    for (std::int64_t i = 0; i < shape_[0]; ++i)
      for (std::int64_t j = 0; j < shape_[1]; ++j)
        for (std::int64_t k = 0; k < shape_[2]; ++k)
          for (std::int64_t l = 0; l < shape_[3]; ++l) set(i, j, k, l, make(i, j, k, l));
  }

  // The whole storage, elements or not (far layouts: the elements); a fresh array is poisoned. Every floating type reads it as
  // NaN.
  void poison();
  // Whether all bytes that belong to no element still hold the poison.
  bool poison_outside_elements() const;
  // The elements' own bytes, for comparing bit by bit.
  std::vector<std::byte> element_bytes() const;
  // A poisoned array of the same type, shape and layout.
  Array like() const;

  // Strides of the first three dimensions, in the order given.
  core::Operand operand(std::array<int, 4> order) const;

 private:
  dhyan_dtype dtype_ = DHYAN_NONE;
  Shape shape_{};
  Shape strides_{};
  std::int32_t alignment_ = 16;
  std::int64_t begin_ = 0;  // bytes
  std::int64_t total_ = 0;  // bytes
  std::shared_ptr<std::byte[]> bytes_;

  bool far() const { return total_ > (std::int64_t{1} << 30); }
};

constexpr int absent_dimension = -1;

}  // namespace dhyan::testing

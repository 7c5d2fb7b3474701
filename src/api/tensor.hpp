// SPDX-License-Identifier: Apache-2.0
// One tensor, checked and normalised, and whether two of them share memory.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "dhyan/dhyan.h"

namespace dhyan::api {

// Dimensions and origins stop here, so that sums and products of a few of them need no further care.
inline constexpr std::int64_t kMaxDimension = std::int64_t{1} << 40;

// Where a tensor's elements lie. Strides of dimensions of size 0 or 1 are 0.
struct Layout {
  dhyan_dtype dtype = DHYAN_NONE;
  int rank = 0;
  std::array<std::int64_t, DHYAN_MAX_RANK> shape{};
  std::array<std::int64_t, DHYAN_MAX_RANK> strides{};
  std::int64_t elements = 0;  // 0 when some dimension is 0; saturated for views that repeat elements
  std::int64_t bytes = 0;     // from the first element to the end of the last
  std::int32_t alignment = 0;

  bool operator==(const Layout&) const = default;
  bool present() const { return dtype != DHYAN_NONE; }
  bool same_place(const Layout& other) const {
    return dtype == other.dtype && rank == other.rank && shape == other.shape && strides == other.strides;
  }
};

// "[2, 3, 4]".
std::string shape_text(const Layout& layout);

// Checks everything about a tensor that needs no other tensor: device, dtype code, rank, shape, strides, sizes, alignment. The
// last dimension's stride must be 1 unless `any_last_stride`. Throws Error with `name` as the argument. The alignment is the
// one asked for, or 0.
Layout read_layout(const dhyan_tensor& tensor, const char* name, bool any_last_stride = false);

// Checks that a tensor names a device that can be used here. Throws Error with `name` as the argument.
void check_device(const dhyan_tensor& tensor, const char* name);

// Checks that a tensor, or a stream, belongs to the device of the first tensor of its call. Throws Error.
void require_device(const dhyan_tensor& tensor, const char* name, const dhyan_tensor& first, const char* first_name);
void require_stream(void* stream, const dhyan_tensor& first);

// "cpu", "cuda:0".
std::string device_text(dhyan_device_type type, std::int32_t index);

// The alignment of a pointer that the strides let every row keep: at most `most` bytes.
std::int32_t row_alignment(const Layout& layout, std::int32_t most);

// Checks that a tensor with elements has its pointer, aligned to its element's size and to what the layout asks for.
void check_pointer(const Layout& layout, const void* data, const char* name);

// False when no two elements share memory, by nesting: each stride spans all the smaller ones cover.
bool overlaps_itself(const Layout& layout);

// Whether two tensors share a byte: exact, except that views too tangled to decide within bounds count as overlapping.
bool overlap(const Layout& a, const void* a_data, const Layout& b, const void* b_data);

}  // namespace dhyan::api

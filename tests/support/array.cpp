// SPDX-License-Identifier: Apache-2.0
#include "support/array.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>

#include "core/convert.hpp"

namespace dhyan::testing {
namespace {

constexpr std::byte poison_byte{0xFF};

// Pages that exist once they are written.
std::shared_ptr<std::byte[]> reserve(std::int64_t bytes) {
  const auto size = static_cast<std::size_t>(bytes);
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return {static_cast<std::byte*>(memory), [size](std::byte* p) { munmap(p, size); }};
}

std::shared_ptr<std::byte[]> allocate(std::int64_t bytes) {
  if (bytes > (std::int64_t{1} << 30)) return reserve(bytes);
  constexpr std::align_val_t alignment{64};
  auto* memory = static_cast<std::byte*>(::operator new[](static_cast<std::size_t>(bytes), alignment));
  return {memory, [](std::byte* p) { ::operator delete[](p, std::align_val_t{64}); }};
}

}  // namespace

const char* name_of(Layout layout) {
  switch (layout) {
    case Layout::contiguous:
      return "contiguous";
    case Layout::heads_first:
      return "heads_first";
    case Layout::gaps:
      return "gaps";
    case Layout::shared_batch:
      return "shared_batch";
    case Layout::far_batches:
      return "far_batches";
    case Layout::far_tokens:
      return "far_tokens";
    default:
      return "unaligned";
  }
}

Array::Array(dhyan_dtype dtype, const Shape& shape, Layout layout, const std::array<bool, 4>& broadcast)
    : dtype_(dtype), shape_(shape) {
  const std::array<int, 4> memory_order =
      layout == Layout::heads_first ? std::array<int, 4>{0, 2, 1, 3} : std::array<int, 4>{0, 1, 2, 3};
  std::int64_t gap = 0;
  if (layout == Layout::gaps) gap = 16;
  if (layout == Layout::unaligned) gap = 1;
  std::int64_t step = 1;
  for (int i = 3; i >= 0; --i) {
    const auto d = static_cast<std::size_t>(memory_order[static_cast<std::size_t>(i)]);
    const bool shared = broadcast[d] || (d == 0 && layout == Layout::shared_batch);
    strides_[d] = shared ? 0 : step;
    if (!shared) step = step * std::max<std::int64_t>(shape[d], 1) + gap;
    if (d == 1 && layout == Layout::far_batches) step += (std::int64_t{1} << 31);
    if (d == 2 && layout == Layout::far_tokens) step += std::int64_t{1} << 29;
  }
  const auto size = static_cast<std::int64_t>(core::size_of(dtype));
  begin_ = layout == Layout::unaligned ? size : 0;
  total_ = begin_ + (this->size() == 0 ? 0 : step * size);
  while (alignment_ > size && begin_ % alignment_ != 0) alignment_ /= 2;
  for (int d = 0; d < 3; ++d) {
    while (alignment_ > size && strides_[d] * size % alignment_ != 0) alignment_ /= 2;
  }
  alignment_ = std::max(alignment_, static_cast<std::int32_t>(size));
  bytes_ = allocate(total_);
  poison();
}

void Array::set(std::int64_t i, std::int64_t j, std::int64_t k, std::int64_t l, double x) {
  const std::int64_t at = offset(i, j, k, l);
  switch (dtype_) {
    case DHYAN_BOOL:
      static_cast<std::uint8_t*>(data())[at] = x != 0;
      break;
    case DHYAN_I32:
      static_cast<std::int32_t*>(data())[at] = static_cast<std::int32_t>(x);
      break;
    case DHYAN_I64:
      static_cast<std::int64_t*>(data())[at] = static_cast<std::int64_t>(x);
      break;
    default:
      core::store(data(), dtype_, at, x);
  }
}

double Array::get(std::int64_t i, std::int64_t j, std::int64_t k, std::int64_t l) const {
  const std::int64_t at = offset(i, j, k, l);
  switch (dtype_) {
    case DHYAN_BOOL:
      return static_cast<const std::uint8_t*>(data())[at];
    case DHYAN_I32:
      return static_cast<const std::int32_t*>(data())[at];
    case DHYAN_I64:
      return static_cast<double>(static_cast<const std::int64_t*>(data())[at]);
    default:
      return core::load(data(), dtype_, at);
  }
}

std::vector<double> Array::values() const {
  std::vector<double> all;
  all.reserve(static_cast<std::size_t>(size()));
  for (std::int64_t i = 0; i < shape_[0]; ++i)
    for (std::int64_t j = 0; j < shape_[1]; ++j)
      for (std::int64_t k = 0; k < shape_[2]; ++k)
        for (std::int64_t l = 0; l < shape_[3]; ++l) all.push_back(get(i, j, k, l));
  return all;
}

void Array::assign(const std::vector<double>& values) {
  std::size_t at = 0;
  fill([&](auto...) { return values[at++]; });
}

void Array::poison() {
  if (far()) {
    fill([](auto...) { return std::numeric_limits<double>::quiet_NaN(); });
  } else {
    std::fill_n(bytes_.get(), total_, poison_byte);
  }
}

bool Array::poison_outside_elements() const {
  const auto element = static_cast<std::int64_t>(core::size_of(dtype_));
  if (far() || (begin_ == 0 && total_ == size() * element)) return true;
  std::vector<unsigned char> inside(static_cast<std::size_t>(total_), 0);
  for (std::int64_t i = 0; i < shape_[0]; ++i)
    for (std::int64_t j = 0; j < shape_[1]; ++j)
      for (std::int64_t k = 0; k < shape_[2]; ++k)
        for (std::int64_t l = 0; l < shape_[3]; ++l) {
          const std::int64_t first = begin_ + offset(i, j, k, l) * element;
          std::fill_n(inside.begin() + first, element, static_cast<unsigned char>(1));
        }
  for (std::int64_t i = 0; i < total_; ++i) {
    if (!inside[static_cast<std::size_t>(i)] && bytes_[i] != poison_byte) return false;
  }
  return true;
}

std::vector<std::byte> Array::element_bytes() const {
  const std::size_t element = core::size_of(dtype_);
  std::vector<std::byte> all;
  all.reserve(static_cast<std::size_t>(size()) * element);
  for (std::int64_t i = 0; i < shape_[0]; ++i)
    for (std::int64_t j = 0; j < shape_[1]; ++j)
      for (std::int64_t k = 0; k < shape_[2]; ++k)
        for (std::int64_t l = 0; l < shape_[3]; ++l) {
          const std::byte* first = bytes_.get() + begin_ + offset(i, j, k, l) * static_cast<std::int64_t>(element);
          all.insert(all.end(), first, first + element);
        }
  return all;
}

Array Array::like() const {
  Array copy = *this;
  if (present()) {
    copy.bytes_ = allocate(total_);
    copy.poison();
  }
  return copy;
}

core::Operand Array::operand(std::array<int, 4> order) const {
  core::Operand result;
  if (!present()) return result;
  result.dtype = dtype_;
  result.alignment = alignment_;
  for (std::size_t i = 0; i < 4; ++i) {
    if (order[i] != absent_dimension) result.strides[i] = strides_[static_cast<std::size_t>(order[i])];
  }
  return result;
}

}  // namespace dhyan::testing

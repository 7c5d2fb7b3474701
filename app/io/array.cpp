// SPDX-License-Identifier: Apache-2.0
#include "io/array.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "failure.hpp"

namespace dhyan::app {

const ElementInfo& info_of(Element element) {
  return *std::find_if(elements.begin(), elements.end(), [&](const ElementInfo& e) { return e.element == element; });
}

const ElementInfo& info_of(DType dtype) {
  return *std::find_if(elements.begin(), elements.end(), [&](const ElementInfo& e) { return e.dtype == dtype; });
}

Buffer::Buffer(std::size_t size) : size_(size) {
  constexpr std::size_t alignment = 64;
  if (size > std::numeric_limits<std::size_t>::max() - alignment) fail("{} bytes of memory cannot be had", size);
  const std::size_t rounded = std::max(alignment, (size + alignment - 1) / alignment * alignment);
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(alignment, rounded)));
  if (!data_) fail("{} bytes of memory cannot be had", size);
}

std::optional<std::int64_t> count_of(std::span<const std::int64_t> shape) {
  std::int64_t count = 1;
  bool empty = false;
  for (const std::int64_t d : shape) {
    if (d < 0) return std::nullopt;
    if (d == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(count, d, &count)) {
      return std::nullopt;
    }
  }
  return empty ? 0 : count;
}

std::optional<std::int64_t> bytes_of(std::int64_t count, std::size_t element_size) {
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(count, static_cast<std::int64_t>(element_size), &bytes)) return std::nullopt;
  return bytes;
}

std::string shape_text(std::span<const std::int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

Array::Array(Element element, Shape dimensions) : element(element), shape(std::move(dimensions)) {
  const auto count = count_of(shape);
  const auto bytes = count ? bytes_of(*count, info_of(element).size) : std::nullopt;
  if (!bytes) fail("a tensor of shape {} does not fit in memory", shape_text(shape));
  data = Buffer(static_cast<std::size_t>(*bytes));
}

TensorView Array::view(Device device) const { return {elements_on(device), info_of(element).dtype, shape, {}, device}; }

const std::byte* Array::elements_on(Device device) const { return device.type == DHYAN_CPU ? data.data() : on_device.data(); }

void Array::reserve(Device device) {
  if (device.type != DHYAN_CPU) on_device = DeviceMemory(data.size(), device);
}

void Array::place(Device device) {
  reserve(device);
  if (on_device.data()) on_device.write(data.bytes());
}

void Array::fetch() {
  if (on_device.data()) on_device.read(data.bytes());
}

void Array::assign(const Array& other) {
  std::ranges::copy(other.data.bytes(), data.data());
  if (on_device.data()) on_device.write(data.bytes());
}

Array convert_array(const Array& source, Element element, Device device) {
  Array result(element, source.shape);
  result.reserve(device);
  const std::int64_t flat[] = {source.count()};  // any rank
  const auto view = [&](const Array& array) {
    return TensorView(array.elements_on(device), info_of(array.element).dtype, flat, {}, device);
  };
  convert(view(source), view(result));
  result.fetch();
  return result;
}

}  // namespace dhyan::app

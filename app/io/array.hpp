// SPDX-License-Identifier: Apache-2.0
// A tensor in memory, as files hold it; on a GPU too, where one computes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/memory.hpp"
#include "dhyan/dhyan.hpp"

namespace dhyan::app {

enum class Element { f64, f32, f16, bf16, boolean, u8, i32, i64 };

struct ElementInfo {
  Element element;
  std::string_view name;         // as the command line and messages say it
  std::size_t size;              // bytes
  std::string_view npy;          // the descr of a .npy header; empty: npy has none
  std::string_view safetensors;  // the dtype of a safetensors header
  DType dtype;                   // none: the library has none
};

inline constexpr std::array<ElementInfo, 8> elements{{{Element::f64, "f64", 8, "<f8", "F64", DType::f64},
                                                      {Element::f32, "f32", 4, "<f4", "F32", DType::f32},
                                                      {Element::f16, "f16", 2, "<f2", "F16", DType::f16},
                                                      {Element::bf16, "bf16", 2, "", "BF16", DType::bf16},
                                                      {Element::boolean, "bool", 1, "|b1", "BOOL", DType::boolean},
                                                      {Element::u8, "u8", 1, "|u1", "U8", DType::none},
                                                      {Element::i32, "i32", 4, "<i4", "I32", DType::i32},
                                                      {Element::i64, "i64", 8, "<i8", "I64", DType::i64}}};

const ElementInfo& info_of(Element element);
const ElementInfo& info_of(DType dtype);
inline bool is_floating(Element e) { return e == Element::f64 || e == Element::f32 || e == Element::f16 || e == Element::bf16; }

// Bytes aligned for any kernel; never value-initialised.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t size);
  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  std::span<std::byte> bytes() { return {data_.get(), size_}; }
  std::span<const std::byte> bytes() const { return {data_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte[], Free> data_;
  std::size_t size_ = 0;
};

using Shape = std::vector<std::int64_t>;

// The number of elements; nothing when a dimension is negative or the product passes 2^63 - 1.
std::optional<std::int64_t> count_of(std::span<const std::int64_t> shape);
// count · element_size; nothing when it passes 2^63 - 1.
std::optional<std::int64_t> bytes_of(std::int64_t count, std::size_t element_size);
std::string shape_text(std::span<const std::int64_t> shape);  // "[3, 64, 12, 32]"

struct Array {
  Element element = Element::f32;
  Shape shape;
  Buffer data;

  Array() = default;
  // Uninitialised elements.
  Array(Element element, Shape shape);

  std::int64_t count() const { return *count_of(shape); }
  template <class T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(data.data()), data.size() / sizeof(T)};
  }
  template <class T>
  std::span<T> as() {
    return {reinterpret_cast<T*>(data.data()), data.size() / sizeof(T)};
  }
  // A view for the library; rank at most 4, not u8. On a GPU: of the copy there.
  TensorView view(Device device = cpu) const;
  const std::byte* elements_on(Device device) const;

  // Memory on a GPU, of which `data` is the mirror on the host; on a CPU that is all there is.
  DeviceMemory on_device;
  void reserve(Device device);      // unwritten
  void place(Device device);        // with the elements
  void fetch();                     // the device's elements into `data`, once it has done all it was given
  void assign(const Array& other);  // elements of an array like this one, here and there
};

// To another floating type, to nearest even, by the library; on a GPU from the copy there, and then to the host as well.
Array convert_array(const Array& source, Element element, Device device = cpu);

}  // namespace dhyan::app

// SPDX-License-Identifier: Apache-2.0
// NumPy's .npy files, versions 1 to 3.
#pragma once

#include <string>

#include "io/array.hpp"
#include "io/bytes.hpp"

namespace dhyan::app {

struct NpyHeader {
  Element element = Element::f32;
  Shape shape;
  std::size_t data_offset = 0;  // where the elements begin
  std::size_t data_bytes = 0;   // what the shape calls for
};

// Longest header that is read; numpy itself stops at 10000.
inline constexpr std::size_t longest_npy_header = 65536;

// The header at the start of `bytes`, which need not hold the elements.
NpyHeader read_npy_header(Bytes bytes, std::string_view file);
// A whole file. Throws Failure with one sentence that names `file`.
Array read_npy(Bytes bytes, std::string_view file);
// The header of a file that holds `array`; its elements follow.
std::string npy_header(const Array& array);

}  // namespace dhyan::app

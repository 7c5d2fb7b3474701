// SPDX-License-Identifier: Apache-2.0
// Files made by hand, right ones and wrong ones.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "io/array.hpp"

namespace dhyan::testing {

template <class T>
std::string little_endian(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

// A .npy file with this dictionary and these element bytes.
std::string npy_file(std::string_view dictionary, std::string_view data, int version = 1);
// A .npy file of an array.
std::string npy_file(const app::Array& array);
// {'descr': …, 'fortran_order': False, 'shape': …, }
std::string npy_dictionary(std::string_view descr, std::string_view shape);

struct ZipEntry {
  std::string name;
  std::string data;
  bool deflate = false;
  // What the directory claims instead of the truth.
  std::int64_t claimed_size = -1, claimed_packed_size = -1, claimed_offset = -1, claimed_crc = -1;
  int flags = 0, method = -1;
};
std::string zip_file(const std::vector<ZipEntry>& entries, std::string_view comment = "");

std::string safetensors_file(std::string_view header, std::string_view data);

}  // namespace dhyan::testing

// SPDX-License-Identifier: Apache-2.0
// Bounds-checked reading of little-endian numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "failure.hpp"

namespace dhyan::app {

using Bytes = std::span<const std::byte>;

inline std::string_view as_text(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// A part of a file's bytes with the file's name, for messages.
class Reader {
 public:
  Reader(Bytes bytes, std::string_view file) : bytes_(bytes), file_(file) {}

  std::size_t size() const { return bytes_.size(); }
  std::string_view file() const { return file_; }

  // `length` bytes from `offset`; `what` names them when the file is too short.
  Bytes at(std::uint64_t offset, std::uint64_t length, std::string_view what) const {
    if (offset > bytes_.size() || length > bytes_.size() - offset) {
      refuse("{}: {} would be bytes {} to {}, but the file ends at byte {}; it is truncated or not what its name says", file_,
             what, offset, offset + length, bytes_.size());
    }
    return bytes_.subspan(offset, length);
  }

  template <class T>
  T number(std::uint64_t offset, std::string_view what) const {
    const Bytes raw = at(offset, sizeof(T), what);
    T value;
    std::memcpy(&value, raw.data(), sizeof(T));  // x86-64 is little-endian, like the formats
    return value;
  }

 private:
  Bytes bytes_;
  std::string_view file_;
};

}  // namespace dhyan::app

// SPDX-License-Identifier: Apache-2.0
// Scratch memory of runs that bring none: blocks kept from one run to the next.
#pragma once

#include <cstddef>

namespace dhyan::api {

inline constexpr std::size_t kScratchAlignment = 64;

// A block of at least `bytes`, 64-byte aligned, for as long as this lives. Throws Error (out of memory, with the bytes).
class Scratch {
 public:
  explicit Scratch(std::size_t bytes);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

// Frees every block that no run holds.
void trim_scratch();

// Bytes kept by no run; for tests.
std::size_t kept_scratch_bytes();

}  // namespace dhyan::api

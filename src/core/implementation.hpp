// SPDX-License-Identifier: Apache-2.0
// What an implementation offers to the api: one row of a table and, per problem, something that can run.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "core/problem.hpp"

namespace dhyan::core {

// One problem made ready: immutable, holds no pointers of the caller's, safe to run from many threads.
class Executable {
 public:
  virtual ~Executable() = default;
  // `scratch` has scratch_bytes() bytes, 64-byte aligned. Throws Error.
  virtual void run(const Buffers& buffers, void* scratch, void* stream) const = 0;
  virtual std::size_t scratch_bytes() const = 0;
  // Kernel, instruction set, tiles: one line.
  virtual std::string describe() const = 0;
};

struct ImplementationEntry {
  dhyan_implementation id;
  const char* name;
  dhyan_device_type device_type;
  // Why this machine's device cannot run it at all; empty when it can.
  std::string (*unavailable)(const dhyan_device_description& device);
  // Why it cannot run this problem, and what would work; nothing when it can.
  std::optional<std::string> (*refuse)(const Problem& problem, const dhyan_device_description& device);
  std::unique_ptr<Executable> (*plan)(const Problem& problem, const dhyan_device_description& device);
  bool compiles = false;  // planning takes up to seconds
};

}  // namespace dhyan::core

// SPDX-License-Identifier: Apache-2.0
// What cuDNN's attention cannot do, or does wrongly, as a table. No cuDNN type stands here: the table is tested on any machine.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "core/problem.hpp"

namespace dhyan::cudnn {

// What the rules must know besides the problem.
struct Facts {
  std::int32_t major = 0, minor = 0;  // the device's compute capability
  std::int64_t memory_bytes = 0;      // of the device
  std::size_t version = 0;            // cuDNN's: 91900 is 9.19.0
};

struct Rule {
  const char* name;
  bool (*breaks)(const core::Problem& problem, const Facts& facts);
  // Why not, and what would work; a placeholder {} takes what `value` says.
  const char* sentence;
  std::string (*value)(const core::Problem& problem, const Facts& facts) = nullptr;
};
std::span<const Rule> rules();

// The first rule that the problem breaks, as a sentence; nothing when cuDNN can run it.
std::optional<std::string> refusal(const core::Problem& problem, const Facts& facts);

// 91900: "9.19.0".
std::string version_text(std::size_t version);

}  // namespace dhyan::cudnn

// SPDX-License-Identifier: Apache-2.0
// What float64 says a call should give: all of it, or above 2 GFLOP a sample of rows.
#pragma once

#include <string>
#include <vector>

#include "measure/difference.hpp"
#include "problem/call.hpp"

namespace dhyan::app {

inline constexpr double sampling_limit_flop = 2e9;

struct Oracle {
  std::vector<Expected> expected;
  std::string extent;  // "all values" or which rows
};

// out and lse.
Oracle forward_oracle(const Call& call, const Geometry& geometry);
// Gradients, from the out and lse given, as every implementation takes them.
Oracle backward_oracle(const Call& call, const Geometry& geometry, const Outputs& given);

}  // namespace dhyan::app

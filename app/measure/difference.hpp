// SPDX-License-Identifier: Apache-2.0
// Comparing a result with float64: infinities and NaN by position first, then absolute and relative difference.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/array.hpp"
#include "measure/limits.hpp"

namespace dhyan::app {

// Values that a result should have: everywhere, or on runs of `width` elements that begin at `starts`.
struct Expected {
  std::string name;
  std::vector<double> values;
  std::vector<std::int64_t> starts;
  std::int64_t width = 0;
  bool everywhere = true;
};

struct Difference {
  double max_abs = 0;          // over finite values
  double relative = 0;         // norm of the difference over the norm of what is expected
  std::int64_t misplaced = 0;  // values infinite or NaN where another value is expected, or the reverse
  double share = 0;            // of the limits, by the criterion that comes nearest; over 1 fails
  bool ok() const { return misplaced == 0 && share <= 1; }
};

std::vector<double> doubles_of(const Array& array);
Difference compare(const Array& got, const Expected& expected, const Limits& limits);
// Worst of both.
Difference worst(const Difference& a, const Difference& b);

}  // namespace dhyan::app

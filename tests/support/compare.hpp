// SPDX-License-Identifier: Apache-2.0
// Comparing tensors: infinities and NaNs by position first, then absolute, relative and angular difference.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/bounds.hpp"

namespace dhyan::testing {

struct Difference {
  std::string anomaly;      // the first place where one is infinite or NaN and the other is not the same; empty: none
  double max_absolute = 0;  // over finite elements
  double relative = 0;      // norm of the difference over norm of what is wanted
  double cosine = 1;
  double norm = 0;         // of the difference
  std::int64_t worst = 0;  // where max_absolute is
};

Difference difference(const std::vector<double>& got, const std::vector<double>& want);

::testing::AssertionResult within(const Array& got, const Array& want, const Bound& bound);
::testing::AssertionResult same_bits(const Array& got, const Array& want);

}  // namespace dhyan::testing

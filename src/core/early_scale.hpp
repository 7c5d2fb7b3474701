// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/problem.hpp"

namespace dhyan::core {

// A power of two that one side of Q K^T is multiplied by before the product; the rest of the scale comes after: no sum
// overflows that fits once it is scaled. Sums of f16 products always fit. For f32, f16 and bf16 it is a float.
inline double early_scale(const Problem& p) {
  if (p.dtype == DHYAN_F16 || p.scale == 0 || std::abs(p.scale) >= 1) return 1;
  const int least = p.dtype == DHYAN_F64 ? std::numeric_limits<double>::min_exponent : std::numeric_limits<float>::min_exponent;
  return std::ldexp(1.0, std::max(std::ilogb(p.scale), least));
}

}  // namespace dhyan::core

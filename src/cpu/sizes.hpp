// SPDX-License-Identifier: Apache-2.0
// Sizes in whole pieces, and scale in two.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace dhyan::cpu {

inline std::int64_t ceil_div(std::int64_t x, std::int64_t size) { return (x + size - 1) / size; }
inline std::int64_t round_up(std::int64_t x, std::int64_t multiple) { return ceil_div(x, multiple) * multiple; }

// The part of scale that is left for after the product: an operand made larger before it could overflow where the scaled sum
// fits.
inline double late_scale(double scale) { return std::clamp(std::abs(scale), 1.0, 0x1p100); }

}  // namespace dhyan::cpu

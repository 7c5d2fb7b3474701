// SPDX-License-Identifier: Apache-2.0
// Sizes in whole pieces.
#pragma once

#include <cstdint>

namespace dhyan::cpu {

inline std::int64_t ceil_div(std::int64_t x, std::int64_t size) { return (x + size - 1) / size; }
inline std::int64_t round_up(std::int64_t x, std::int64_t multiple) { return ceil_div(x, multiple) * multiple; }

}  // namespace dhyan::cpu

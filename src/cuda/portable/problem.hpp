// SPDX-License-Identifier: Apache-2.0
// What the portable plans ask of a problem.
#pragma once

#include <cstdint>

#include "core/problem.hpp"

namespace dhyan::cuda::portable {

// Positions are 32-bit numbers in the kernels, and so are numbers of blocks.
inline constexpr std::int64_t kMaxPositions = (std::int64_t{1} << 30) - 1;

inline constexpr int kWholeChunk = 16;  // bytes that cp.async copies

inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Whether masks by position are all that happens to a score.
inline bool masked_by_position_only(const core::Problem& p) {
  return p.softcap == 0 && !p.bias.present() && !p.mask.present() && !p.alibi_slopes.present() && !p.has_dropout();
}

}  // namespace dhyan::cuda::portable

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/problem.hpp"

namespace dhyan::cudnn {

// Causal and window as cuDNN has them: query t sees keys s with t + d - left < s <= t + d + right, where d is 0 or, with
// bottom_right, key length - query length.
struct Band {
  bool bottom_right = false;
  std::int64_t left = -1, right = -1;  // -1: no such bound
  bool possible = true;                // cuDNN has neither a left bound under 1 nor a right one under 0
};

inline constexpr std::int64_t kFar = std::int64_t{1} << 50;  // past every position, and its sums do not overflow

// Bounds that leave everything visible are dropped.
inline Band band_of(const core::Problem& p) {
  const bool equal = p.query_length == p.key_length && !p.packed && !p.query_lengths.present() && !p.key_lengths.present();
  const std::int64_t shift = p.query_origin - p.key_origin;
  Band band;
  band.bottom_right = p.causal == DHYAN_CAUSAL_BOTTOM_RIGHT && !equal;
  if (p.causal != DHYAN_CAUSAL_OFF || p.window_right >= 0) {
    const std::int64_t right = (p.causal != DHYAN_CAUSAL_OFF ? 0 : std::min(p.window_right, kFar)) + shift;
    const bool all = right >= (band.bottom_right ? p.query_length : p.key_length) - 1;
    if (!all) band.right = right;
    band.possible = all || right >= 0;
  }
  if (p.window_left >= 0) {
    const std::int64_t left = std::min(p.window_left, kFar) - shift + 1;
    const bool all = left >= (band.bottom_right ? p.key_length : p.query_length);
    if (!all) band.left = left;
    band.possible = band.possible && (all || left >= 1);
  }
  if (band.left < 0 && band.right < 0) band.bottom_right = false;
  return band;
}

}  // namespace dhyan::cudnn

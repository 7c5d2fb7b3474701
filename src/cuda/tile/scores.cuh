// SPDX-License-Identifier: Apache-2.0
// From scores to logits: which keys a row sees, and the terms that options add.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/philox.hpp"
#include "core/sequence.hpp"
#include "cuda/tile/element.cuh"

namespace dhyan::cuda::tile {

// core::visible_keys of one sequence in 32 bits: query t sees keys [max(0, t + left), min(keys, t + right)).
struct Visible {
  int keys, left, right;

  // A window of -1 is unlimited; a causal mask is one with nothing to the right.
  __device__ Visible(const core::Sequence& s, std::int64_t window_left, std::int64_t window_right)
      : keys(static_cast<int>(s.key_count)), left(-static_cast<int>(s.query_count)), right(static_cast<int>(s.key_count)) {
    const auto within = [&](std::int64_t x) {
      return static_cast<int>(std::clamp<std::int64_t>(x, -s.query_count, s.key_count));
    };
    if (window_left >= 0) left = within(s.shift - window_left);
    if (window_right >= 0) right = within(s.shift + window_right + 1);
  }
  __device__ Visible(const core::Problem& p, const core::Sequence& s)
      : Visible(s, p.window_left, p.causal != DHYAN_CAUSAL_OFF ? 0 : p.window_right) {}
  __device__ __forceinline__ int begin(int t) const { return max(0, t + left); }
  __device__ __forceinline__ int end(int t) const { return min(keys, t + right); }
};

// One row of scores and what the terms of its logits need.
struct ScoreRow {
  std::int64_t b, n, t;
  std::int64_t shift;       // the key position that the row stands on, less t
  std::int64_t bias, mask;  // offsets of the row
  float slope;

  __device__ ScoreRow(const core::Problem& p, const core::Buffers& buffers, std::int64_t batch, std::int64_t head,
                      std::int64_t query, std::int64_t stands)
      : b(batch), n(head), t(query), shift(stands), bias(at(p.bias)), mask(at(p.mask)), slope(0) {
    if (p.alibi_slopes.present()) {
      slope = static_cast<const float*>(buffers.alibi_slopes)[b * p.alibi_slopes.strides[0] + n * p.alibi_slopes.strides[1]];
    }
  }
  __device__ std::int64_t at(const core::Operand& x) const { return b * x.strides[0] + n * x.strides[1] + t * x.strides[2]; }

  // Whether the array mask hides key s.
  __device__ bool hides(const core::Problem& p, const core::Buffers& buffers, std::int64_t s) const {
    return p.mask.present() && static_cast<const std::uint8_t*>(buffers.mask)[mask + s * p.mask.strides[3]] == 0;
  }
};

struct Logit {
  float value;
  float slope;  // d value / d score
};

// Of a key that the row sees; the score is scaled.
__device__ inline Logit logit(const core::Problem& p, const core::Buffers& buffers, const ScoreRow& row, float score,
                              std::int64_t s) {
  Logit x{score, 1};
  if (p.softcap > 0) {
    const auto cap = static_cast<float>(p.softcap);
    const float bent = tanhf(score / cap);
    x = {cap * bent, (1 - bent) * (1 + bent)};
  }
  if (p.bias.present()) x.value += element<float>(buffers.bias, p.bias.dtype, row.bias + s * p.bias.strides[3]);
  if (p.alibi_slopes.present()) {
    const std::int64_t distance = s - row.t - row.shift;
    x.value -= row.slope * static_cast<float>(distance < 0 ? -distance : distance);
  }
  return x;
}

// core::keeps of keys s and s + 1, which mostly share one block of random words.
struct KeptPair {
  bool first, second;
};
__device__ inline KeptPair keeps_pair(const core::Problem& p, std::int64_t b, std::int64_t n, std::int64_t t, std::int64_t s) {
  const auto position = static_cast<std::uint64_t>(s + p.key_origin);
  if (position % 2 != 0) return {core::keeps(p, b, n, t, s), core::keeps(p, b, n, t, s + 1)};
  const auto words = core::keep_words(p, b, n, t, position);
  const bool upper = position % 4 != 0;
  return {(upper ? words[2] : words[0]) >= p.dropout.threshold, (upper ? words[3] : words[1]) >= p.dropout.threshold};
}

}  // namespace dhyan::cuda::tile

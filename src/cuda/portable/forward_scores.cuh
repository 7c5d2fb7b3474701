// SPDX-License-Identifier: Apache-2.0
// Masks and options on a warp's scores.
#pragma once

#include "cuda/portable/forward_block.cuh"
#include "cuda/tile/scores.cuh"

namespace dhyan::cuda::portable {

// What options that work on single scores need.
struct Terms {
  const core::Problem& p;
  const core::Buffers& buffers;
};

// Scores of keys that a row does not see become -inf.
template <ForwardShape kShape>
__device__ __forceinline__ void hide(Scores<kShape>& scores, const ForwardArguments& a, const ForwardBlock& block,
                                     const tile::Visible& visible, int warp_row, int first_key, int lane) {
#pragma unroll
  for (int i = 0; i < kShape.row_tiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int t = block.query(a, row_of_lane(warp_row, lane, i, h));
      const int begin = visible.begin(t) - first_key - lane % 4 * 2;
      const int end = visible.end(t) - first_key - lane % 4 * 2;
#pragma unroll
      for (int j = 0; j < kShape.keys_of_warp() / 8; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          if (8 * j + e < begin || 8 * j + e >= end) scores[i][j][2 * h + e] = -INFINITY;
        }
      }
    }
  }
}

// Scores become logits, -inf where a row sees nothing.
template <ForwardShape kShape>
__device__ __forceinline__ void finish_scores(Scores<kShape>& scores, const ForwardArguments& a, const Terms& terms,
                                              const ForwardBlock& block, const tile::Visible& visible, int warp_row,
                                              int first_key, int lane) {
#pragma unroll
  for (int i = 0; i < kShape.row_tiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int r = row_of_lane(warp_row, lane, i, h);
      const int t = min(block.query(a, r), block.queries - 1);  // rows past the last have no terms of their own
      const tile::ScoreRow row(terms.p, terms.buffers, block.b, block.head(a, r), t, block.sequence.shift);
      const int begin = visible.begin(t);
      const int end = visible.end(t);
#pragma unroll
      for (int j = 0; j < kShape.keys_of_warp() / 8; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int s = first_key + 8 * j + lane % 4 * 2 + e;
          float& x = scores[i][j][2 * h + e];
          const bool seen = s >= begin && s < end && !row.hides(terms.p, terms.buffers, s);
          x = seen ? tile::logit(terms.p, terms.buffers, row, x * a.factor, s).value : -INFINITY;
        }
      }
    }
  }
}

template <ForwardShape kShape>
__device__ __forceinline__ void drop(Scores<kShape>& weights, const ForwardArguments& a, const Terms& terms,
                                     const ForwardBlock& block, int warp_row, int first_key, int lane) {
#pragma unroll
  for (int i = 0; i < kShape.row_tiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int r = row_of_lane(warp_row, lane, i, h);
      const int t = block.query(a, r);
      const int n = block.head(a, r);
#pragma unroll
      for (int j = 0; j < kShape.keys_of_warp() / 8; ++j) {
        const tile::KeptPair kept = tile::keeps_pair(terms.p, block.b, n, t, first_key + 8 * j + lane % 4 * 2);
        if (!kept.first) weights[i][j][2 * h] = 0;
        if (!kept.second) weights[i][j][2 * h + 1] = 0;
      }
    }
  }
}

// The first tile of keys from `tile` on, at most `last`, that the array mask leaves something of. All threads take part.
template <ForwardShape kShape>
__device__ int next_seen(const ForwardArguments& a, const Terms& terms, const ForwardBlock& block, int tile, int last) {
  for (; tile < last; ++tile) {
    bool seen = false;
    const int first_key = tile * kShape.keys;
    for (int i = threadIdx.x; i < block.rows * kShape.keys && !seen; i += kShape.threads()) {
      const int t = block.query(a, i / kShape.keys);
      const int s = first_key + i % kShape.keys;
      if (t >= block.queries || s >= block.sequence.key_count) continue;
      const tile::ScoreRow row(terms.p, terms.buffers, block.b, block.head(a, i / kShape.keys), t, block.sequence.shift);
      seen = !row.hides(terms.p, terms.buffers, s);
    }
    if (__syncthreads_or(seen)) break;
  }
  return tile;
}

}  // namespace dhyan::cuda::portable

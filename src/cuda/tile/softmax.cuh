// SPDX-License-Identifier: Apache-2.0
// Softmax of rows that arrive tile by tile (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018).
#pragma once

#include <cmath>

#include "cuda/ptx/math.cuh"
#include "cuda/tile/products.cuh"

namespace dhyan::cuda::tile {

inline constexpr float kLog2E = 1.4426950408889634f;

// Of the lanes that hold one row.
__device__ __forceinline__ float row_maximum(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}
__device__ __forceinline__ float row_sum(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}

// Rows l/4 + 8 h of each 16-row tile: the score that weights are relative to, and the sum of weights, of this lane's columns.
template <int kRowTiles>
struct Softmax {
  float highest[kRowTiles][2];
  float sum[kRowTiles][2];

  __device__ __forceinline__ Softmax() {
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        highest[i][h] = -INFINITY;
        sum[i][h] = 0;
      }
    }
  }

  // Scores become weights, unnormalised; factor > 0 turns scores into powers of 2. The reference follows the highest score only
  // when weights would pass 2^kRoom; then `shrink` brings outputs so far to the new one, else it is 1, and whether it is 1 for
  // the whole warp comes back: mostly it is. `kSubtractFirst`: scores may be as large as floats are.
  template <bool kSubtractFirst, int kKeys>
  __device__ __forceinline__ bool weigh(Sums<kRowTiles, kKeys>& scores, float (&shrink)[kRowTiles][2], float factor) {
    constexpr float kRoom = 8;
    float most[kRowTiles][2];
    bool grows = false;
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float x = scores[i][0][2 * h];
#pragma unroll
        for (int j = 0; j < kKeys / 8; ++j) x = fmaxf(x, fmaxf(scores[i][j][2 * h], scores[i][j][2 * h + 1]));
        most[i][h] = row_maximum(x);
        shrink[i][h] = 1;
        grows |= (most[i][h] - highest[i][h]) * factor > kRoom;
      }
    }
    grows = __any_sync(~0u, grows) != 0;
    if (grows) {
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          most[i][h] = fmaxf(highest[i][h], most[i][h]);
          if (most[i][h] != -INFINITY) shrink[i][h] = ptx::exp2((highest[i][h] - most[i][h]) * factor);
          highest[i][h] = most[i][h];
          sum[i][h] *= shrink[i][h];
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float reference = highest[i][h] == -INFINITY ? 0 : highest[i][h];  // nothing seen yet: weights of 0, not NaN
        const float negative = -reference * factor;
#pragma unroll
        for (int j = 0; j < kKeys / 8; ++j) {
#pragma unroll
          for (int e = 2 * h; e < 2 * h + 2; ++e) {
            float& x = scores[i][j][e];
            x = ptx::exp2(kSubtractFirst ? (x - reference) * factor : fmaf(x, factor, negative));
            sum[i][h] += x;
          }
        }
      }
    }
    return grows;
  }

  // The same, with the outputs so far.
  template <bool kSubtractFirst, int kKeys, int kColumns>
  __device__ __forceinline__ void add(Sums<kRowTiles, kKeys>& scores, Sums<kRowTiles, kColumns>& out, float factor) {
    float shrink[kRowTiles][2];
    if (!weigh<kSubtractFirst, kKeys>(scores, shrink, factor)) return;
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
      for (int j = 0; j < kColumns / 8; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) out[i][j][e] *= shrink[i][e / 2];
      }
    }
  }
};

}  // namespace dhyan::cuda::tile

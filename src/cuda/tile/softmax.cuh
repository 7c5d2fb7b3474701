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

// Rows l/4 + 8 h of each 16-row tile: their highest score, and the sum of 2^(factor (score - highest)), of this lane's columns.
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

  // Scores become weights, unnormalised; `shrink` brings outputs so far to the new reference. factor > 0 turns scores into
  // powers of 2. `subtract_first`: scores may be as large as floats are.
  template <bool kSubtractFirst, int kKeys>
  __device__ __forceinline__ void weigh(Sums<kRowTiles, kKeys>& scores, float (&shrink)[kRowTiles][2], float factor) {
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float most = scores[i][0][2 * h];
#pragma unroll
        for (int j = 0; j < kKeys / 8; ++j) most = fmaxf(most, fmaxf(scores[i][j][2 * h], scores[i][j][2 * h + 1]));
        most = fmaxf(highest[i][h], row_maximum(most));
        const float reference = most == -INFINITY ? 0 : most;  // nothing seen yet: weights of 0, not NaN
        shrink[i][h] = ptx::exp2((highest[i][h] - reference) * factor);
        highest[i][h] = most;
        float total = 0;
#pragma unroll
        for (int j = 0; j < kKeys / 8; ++j) {
#pragma unroll
          for (int e = 2 * h; e < 2 * h + 2; ++e) {
            float& x = scores[i][j][e];
            x = ptx::exp2(kSubtractFirst ? (x - reference) * factor : fmaf(x, factor, -reference * factor));
            total += x;
          }
        }
        sum[i][h] = sum[i][h] * shrink[i][h] + total;
      }
    }
  }

  // The same, with the outputs so far.
  template <bool kSubtractFirst, int kKeys, int kColumns>
  __device__ __forceinline__ void add(Sums<kRowTiles, kKeys>& scores, Sums<kRowTiles, kColumns>& out, float factor) {
    float shrink[kRowTiles][2];
    weigh<kSubtractFirst, kKeys>(scores, shrink, factor);
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

// SPDX-License-Identifier: Apache-2.0
// The two products of attention, by one warp: left rows in 16-row tiles, f32 sums in registers as mma.sync lays them out. Lane
// l holds of each 16x8 block rows l/4 and l/4 + 8, columns 2(l%4) and the next: elements 0, 1 and 2, 3.
#pragma once

#include <cstdint>

#include "cuda/ptx/ldmatrix.cuh"
#include "cuda/ptx/mma.cuh"
#include "cuda/tile/half.cuh"
#include "cuda/tile/shared_tile.cuh"

namespace dhyan::cuda::tile {

template <int kRowTiles, int kColumns>
using Sums = float[kRowTiles][kColumns / 8][4];

template <int kRowTiles, int kColumns>
__device__ __forceinline__ void clear(Sums<kRowTiles, kColumns>& sums) {
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
    for (int j = 0; j < kColumns / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[i][j][e] = 0;
    }
  }
}

// sums += left rightᵀ: rows of kDepth elements on both sides, in shared memory. The addresses are those of the lane's part of
// the first 16 rows (rows_first for the left, columns_first for the right).
template <class T, int kDepth, int kRowTiles, int kColumns>
__device__ __forceinline__ void multiply_rows(Sums<kRowTiles, kColumns>& sums, std::uint32_t left, std::uint32_t right) {
  constexpr int kBlock = 16 * SharedTile<kDepth>::kPitch;
#pragma unroll
  for (int k = 0; k < kDepth / 16; ++k) {
    std::uint32_t a[kRowTiles][4];
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) ptx::ldmatrix(a[i], (left ^ (k * 32)) + i * kBlock);
#pragma unroll
    for (int j = 0; j < kColumns / 16; ++j) {
      std::uint32_t b[4];
      ptx::ldmatrix(b, (right ^ (k * 32)) + j * kBlock);
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
        ptx::mma_16x8x16<T>(sums[i][2 * j], a[i], b[0], b[1]);
        ptx::mma_16x8x16<T>(sums[i][2 * j + 1], a[i], b[2], b[3]);
      }
    }
  }
}

// sums += weights values: weights are sums of an earlier product, rounded to T; values are rows of kPitch elements in shared
// memory, of which kColumns from the lane's address (rows_first) on take part.
template <class T, int kPitch, int kRowTiles, int kDepth, int kColumns>
__device__ __forceinline__ void multiply_weights(Sums<kRowTiles, kColumns>& sums, const Sums<kRowTiles, kDepth>& weights,
                                                 std::uint32_t values) {
  constexpr int kBlock = 16 * SharedTile<kPitch>::kPitch;
#pragma unroll
  for (int k = 0; k < kDepth / 16; ++k) {
    std::uint32_t a[kRowTiles][4];
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
      for (int h = 0; h < 4; ++h) {
        const float(&block)[4] = weights[i][2 * k + h / 2];
        a[i][h] = packed<T>(block[h % 2 * 2], block[h % 2 * 2 + 1]);
      }
    }
#pragma unroll
    for (int j = 0; j < kColumns / 16; ++j) {
      std::uint32_t b[4];
      ptx::ldmatrix_transposed(b, (values ^ (j * 32)) + k * kBlock);
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
        ptx::mma_16x8x16<T>(sums[i][2 * j], a[i], b[0], b[1]);
        ptx::mma_16x8x16<T>(sums[i][2 * j + 1], a[i], b[2], b[3]);
      }
    }
  }
}

}  // namespace dhyan::cuda::tile

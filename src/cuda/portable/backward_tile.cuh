// SPDX-License-Identifier: Apache-2.0
// What the backward kernels share: products with weights that lie in registers or in shared memory, tiles of rows, and how a
// score becomes a weight and a gradient.
#pragma once

#include <cstdint>

#include "cuda/portable/backward.hpp"
#include "cuda/ptx/math.cuh"
#include "cuda/tile/products.cuh"
#include "cuda/tile/scores.cuh"
#include "cuda/tile/shared_tile.cuh"

namespace dhyan::cuda::portable {

inline constexpr float kLog2E = 1.44269504088896340736F;

// Sums of one product, rounded to the left operand of the next.
template <int kRowTiles, int kDepth>
using Left = std::uint32_t[kRowTiles][kDepth / 16][4];

// Block j of 8 columns. It is computed where this stands, not where it is used: between products it costs no time.
template <class T, int kRowTiles, int kDepth>
__device__ __forceinline__ void round_block(Left<kRowTiles, kDepth>& left, const tile::Sums<kRowTiles, kDepth>& sums, int j) {
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      std::uint32_t& pair = left[i][j / 2][j % 2 * 2 + h];
      pair = tile::packed<T>(sums[i][j][2 * h], sums[i][j][2 * h + 1]);
      asm volatile("" : "+r"(pair));
    }
  }
}
template <class T, int kRowTiles, int kDepth>
__device__ __forceinline__ void round_to(Left<kRowTiles, kDepth>& left, const tile::Sums<kRowTiles, kDepth>& sums) {
#pragma unroll
  for (int j = 0; j < kDepth / 8; ++j) round_block<T, kRowTiles, kDepth>(left, sums, j);
}

// The products go by steps of 16 of their depth, so that other work can stand between them: a warp's instructions start in
// order.

// Step k of tile::multiply_rows.
template <class T, int kDepth, int kRowTiles, int kColumns>
__device__ __forceinline__ void multiply_rows_step(tile::Sums<kRowTiles, kColumns>& sums, std::uint32_t left,
                                                   std::uint32_t right, int k) {
  constexpr int kBlock = 16 * tile::SharedTile<kDepth>::kPitch;
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

// sums += left right of step k, right being rows of kPitch elements in shared memory from the lane's address (rows_first) on.
template <class T, int kPitch, int kRowTiles, int kDepth, int kColumns>
__device__ __forceinline__ void multiply_left_step(tile::Sums<kRowTiles, kColumns>& sums, const Left<kRowTiles, kDepth>& left,
                                                   std::uint32_t right, int k) {
#pragma unroll
  for (int j = 0; j < kColumns / 16; ++j) {
    std::uint32_t b[4];
    ptx::ldmatrix_transposed(b, (right ^ (j * 32)) + k * 16 * tile::SharedTile<kPitch>::kPitch);
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
      ptx::mma_16x8x16<T>(sums[i][2 * j], left[i][k], b[0], b[1]);
      ptx::mma_16x8x16<T>(sums[i][2 * j + 1], left[i][k], b[2], b[3]);
    }
  }
}
template <class T, int kPitch, int kRowTiles, int kDepth, int kColumns>
__device__ __forceinline__ void multiply_left(tile::Sums<kRowTiles, kColumns>& sums, const Left<kRowTiles, kDepth>& left,
                                              std::uint32_t right) {
#pragma unroll
  for (int k = 0; k < kDepth / 16; ++k) multiply_left_step<T, kPitch, kRowTiles, kDepth, kColumns>(sums, left, right, k);
}

// The same with the left in shared memory, in rows of kLeftPitch elements: as it is (rows_first), or transposed
// (columns_first), then with the depth along its rows.
template <class T, int kLeftPitch, bool kTransposed, int kPitch, int kRowTiles, int kColumns>
__device__ __forceinline__ void multiply_shared_step(tile::Sums<kRowTiles, kColumns>& sums, std::uint32_t left,
                                                     std::uint32_t right, int k) {
  constexpr int kLeftBlock = 16 * tile::SharedTile<kLeftPitch>::kPitch;
  std::uint32_t a[kRowTiles][4];
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
    if constexpr (kTransposed) {
      ptx::ldmatrix_transposed(a[i], (left ^ (i * 32)) + k * kLeftBlock);
    } else {
      ptx::ldmatrix(a[i], (left ^ (k * 32)) + i * kLeftBlock);
    }
  }
#pragma unroll
  for (int j = 0; j < kColumns / 16; ++j) {
    std::uint32_t b[4];
    ptx::ldmatrix_transposed(b, (right ^ (j * 32)) + k * 16 * tile::SharedTile<kPitch>::kPitch);
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
      ptx::mma_16x8x16<T>(sums[i][2 * j], a[i], b[0], b[1]);
      ptx::mma_16x8x16<T>(sums[i][2 * j + 1], a[i], b[2], b[3]);
    }
  }
}

// Rows [first, count) of an operand with strides batch, token, head.
template <class T>
__device__ __forceinline__ tile::GlobalRows<T> rows_from(const core::Operand& x, const void* data, std::int64_t b,
                                                         std::int64_t token, std::int64_t head, int count, std::int64_t width) {
  return {static_cast<const T*>(data) + b * x.strides[0] + token * x.strides[1] + head * x.strides[2], x.strides[1], count,
          static_cast<int>(width)};
}

template <int kRows, int kColumns, int kThreads, class T>
__device__ __forceinline__ void load(std::uint32_t to, const tile::GlobalRows<T>& rows, bool aligned, int thread) {
  if (aligned) {
    tile::load_tile<kRows, kColumns, kThreads>(to, rows, thread);
  } else {
    tile::load_tile_by_element<kRows, kColumns, kThreads>(to, rows, thread);
  }
}

// A tile times a power of two, each thread what it has loaded itself.
template <class T, int kRows, int kColumns, int kThreads>
__device__ __forceinline__ void scale_own(std::uint32_t at, float factor, int thread) {
#pragma unroll 2
  for (int i = thread; i < kRows * kColumns / tile::kChunk; i += kThreads) {
    const std::uint32_t own =
        at + tile::SharedTile<kColumns>::offset(i / (kColumns / tile::kChunk), i % (kColumns / tile::kChunk));
    const uint4 x = ptx::load_shared(own);
    ptx::store_shared(own, make_uint4(tile::scaled<T>(x.x, factor), tile::scaled<T>(x.y, factor), tile::scaled<T>(x.z, factor),
                                      tile::scaled<T>(x.w, factor)));
  }
}

// A warp's sums times a factor, rounded, into a tile.
template <class T, int kPitch, int kRowTiles, int kColumns>
__device__ __forceinline__ void stage_sums(std::uint32_t to, const tile::Sums<kRowTiles, kColumns>& sums, float factor,
                                           int first_row, int first_column, int lane) {
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = first_row + 16 * i + 8 * h + lane / 4;
#pragma unroll
      for (int j = 0; j < kColumns / 8; ++j) {
        ptx::store_shared(to + tile::SharedTile<kPitch>::offset(row, first_column / 8 + j) + lane % 4 * 4,
                          tile::packed<T>(sums[i][j][2 * h] * factor, sums[i][j][2 * h + 1] * factor));
      }
    }
  }
}

// Rows of a tile into memory. Whole chunks where rows are aligned.
template <class T, int kRows, int kColumns, int kThreads>
__device__ __forceinline__ void store_rows(std::uint32_t from, T* to, std::int64_t stride, int count, int width, bool aligned,
                                           int thread) {
  constexpr int kChunks = kColumns / tile::kChunk;
  for (int i = thread; i < kRows * kChunks; i += kThreads) {
    const int row = i / kChunks;
    const int chunk = i % kChunks;
    const int left = width - chunk * tile::kChunk;
    if (row >= count || left <= 0) continue;
    const uint4 x = ptx::load_shared(from + tile::SharedTile<kColumns>::offset(row, chunk));
    T* at = to + row * stride + chunk * tile::kChunk;
    if (aligned && left >= tile::kChunk) {
      *reinterpret_cast<uint4*>(at) = x;
      continue;
    }
    const std::uint32_t pairs[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
    for (int e = 0; e < tile::kChunk; ++e) {
      if (e < left) reinterpret_cast<std::uint16_t*>(at)[e] = static_cast<std::uint16_t>(pairs[e / 2] >> (e % 2 * 16));
    }
  }
}

// What one score's gradients are made of; all 0 for a key that the query does not see.
struct Weight {
  float kept;   // after dropout
  float logit;  // gradient of the logit
  float score;  // gradient of the score
};

// The score is the product of the rows as they were multiplied; the key is in the query's range.
__device__ inline Weight weight(const BackwardArguments& a, const tile::ScoreRow& row, float lse, float delta, float score,
                                float grad_kept, int s) {
  const core::Problem& p = a.p;
  if (row.hides(p, a.buffers, s)) return {};
  const tile::Logit x = tile::logit(p, a.buffers, row, score * a.factor, s);
  if (x.value == -INFINITY) return {};
  const float exact = ptx::exp2(x.value * kLog2E - lse);
  float factor = 1;
  if (p.has_dropout()) factor = core::keeps(p, row.b, row.n, row.t, s) ? a.kept : 0;
  const float grad_logit = exact * (grad_kept * factor - delta);
  return {exact * factor, grad_logit, grad_logit * x.slope};
}

}  // namespace dhyan::cuda::portable

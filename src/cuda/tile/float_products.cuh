// SPDX-License-Identifier: Apache-2.0
// The two products of attention in f32, by one warp. Tensor cores multiply TF32, 11 significant bits of f32's 24: each operand
// is split in a high and a low part, and three of the four products make up an f32 one. Tensor cores truncate what they add, so
// that a few products at a time go into a fresh sum, the low ones first, which is then added in f32.
#pragma once

#include <cstdint>

#include "cuda/ptx/ldmatrix.cuh"
#include "cuda/ptx/mma.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/tile/products.cuh"
#include "cuda/tile/shared_tile.cuh"

namespace dhyan::cuda::tile {

// Rows of kColumns floats in shared memory; chunks are 16 bytes as with 16-bit elements.
template <int kColumns>
using FloatTile = SharedTile<2 * kColumns>;

enum class Split {
  none,    // TF32
  three,   // a number that is not finite, or that a rounded high part makes infinite, becomes NaN
  careful  // not finite numbers give what f32 gives
};

struct Parts {
  std::uint32_t high, low;
};

inline constexpr std::uint32_t kHighBits = 0xFFFFE000;
inline constexpr std::uint32_t kHalfLowBits = 0x1000;

__device__ __forceinline__ Parts parts_of(float x, std::uint32_t high) {
  return {high, __float_as_uint(x - __uint_as_float(high))};
}

// The high part is rounded, so that what is left out has either sign.
template <Split kSplit>
__device__ __forceinline__ Parts split(float x) {
  const std::uint32_t bits = __float_as_uint(x);
  if constexpr (kSplit == Split::none) return {ptx::tf32(x), 0};
  if constexpr (kSplit == Split::three) return parts_of(x, (bits + kHalfLowBits) & kHighBits);
  if (isfinite(x)) return parts_of(x, bits & kHighBits);
  return {isnan(x) ? 0x7FC00000 : bits, 0};
}

// The high part is truncated, which takes an instruction less where the register that holds x can be the operand.
template <Split kSplit>
__device__ __forceinline__ Parts split_in_place(float x) {
  if constexpr (kSplit == Split::three) return parts_of(x, __float_as_uint(x) & kHighBits);
  return split<kSplit>(x);
}

// What a low part is multiplied by: 0 * infinity is not what an infinite number adds to a sum.
template <Split kSplit>
__device__ __forceinline__ std::uint32_t across(std::uint32_t high) {
  if constexpr (kSplit != Split::careful) return high;
  return isfinite(__uint_as_float(high)) ? high : 0;
}

// A left operand of 16x8.
struct LeftParts {
  std::uint32_t high[4], low[4];
};

template <Split kSplit>
__device__ __forceinline__ void split_left(LeftParts& to, float x0, float x1, float x2, float x3) {
  const float x[4] = {x0, x1, x2, x3};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const Parts parts = split<kSplit>(x[i]);
    to.high[i] = parts.high;
    to.low[i] = parts.low;
  }
}

// Steps of 8 that go into one fresh sum.
template <Split kSplit, int kColumns>
inline constexpr int kStepsOfSum = kSplit == Split::careful ? 1 : (kColumns > 128 ? 2 : 4);

// sum[16x32] += left right over kSteps steps of 8; `right(step, x)` gives the step's 8x32 block, elements 2 n and 2 n + 1 of
// its n-th 8 columns.
template <Split kSplit, int kSteps, class Right>
__device__ __forceinline__ void multiply_steps(float (&sum)[4][4], const LeftParts (&left)[kSteps], const Right& right) {
  std::uint32_t high[kSteps][8];
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
    Parts parts[8];
    right(s, parts);
    std::uint32_t low[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      high[s][i] = parts[i].high;
      low[i] = parts[i].low;
    }
    if constexpr (kSplit != Split::none) {
      std::uint32_t left_high[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) left_high[i] = across<kSplit>(left[s].high[i]);
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        ptx::mma_16x8x8(sum[n], left[s].low, across<kSplit>(high[s][2 * n]), across<kSplit>(high[s][2 * n + 1]));
      }
#pragma unroll
      for (int n = 0; n < 4; ++n) ptx::mma_16x8x8(sum[n], left_high, low[2 * n], low[2 * n + 1]);
    }
  }
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
#pragma unroll
    for (int n = 0; n < 4; ++n) ptx::mma_16x8x8(sum[n], left[s].high, high[s][2 * n], high[s][2 * n + 1]);
  }
}

// sums = left rightᵀ: rows of kDepth floats on both sides. The addresses are those of the lane's part of the first 16 rows
// (rows_first for the left, columns_first for the right).
template <Split kSplit, int kDepth, int kColumns>
__device__ __forceinline__ void multiply_float_rows(Sums<1, kColumns>& sums, std::uint32_t left, std::uint32_t right) {
  constexpr int kBlock = 16 * FloatTile<kDepth>::kPitch;
  constexpr int kSteps = kStepsOfSum<kSplit, kDepth>;
  // Step k lies 2 k chunks further.
  const auto step = [](std::uint32_t first, int k) { return (first ^ (k % 4 * 32)) + k / 4 * 128; };
  clear<1, kColumns>(sums);
#pragma unroll 1
  for (int k = 0; k < kDepth / 8; k += kSteps) {
    LeftParts parts[kSteps];
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      std::uint32_t x[4];
      ptx::ldmatrix(x, step(left, k + s));
      split_left<kSplit>(parts[s], __uint_as_float(x[0]), __uint_as_float(x[1]), __uint_as_float(x[2]), __uint_as_float(x[3]));
    }
#pragma unroll
    for (int j = 0; j < kColumns / 32; ++j) {
      float sum[4][4] = {};
      multiply_steps<kSplit, kSteps>(sum, parts, [&](int s, Parts(&parts_of_right)[8]) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          std::uint32_t bits[4];
          ptx::ldmatrix(bits, step(right, k + s) + (2 * j + h) * kBlock);
#pragma unroll
          for (int i = 0; i < 4; ++i) parts_of_right[4 * h + i] = split_in_place<kSplit>(__uint_as_float(bits[i]));
        }
      });
#pragma unroll
      for (int n = 0; n < 4; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[0][4 * j + n][e] += sum[n][e];
      }
    }
  }
}

// Where a lane's part of 8 rows of values begins: rows 2 (l%4) and the next one, chunk l/4 of each 32 columns.
struct ValueLane {
  std::uint32_t even, odd;
};
template <int kColumns>
__device__ __forceinline__ ValueLane value_lane(std::uint32_t tile, int lane) {
  const int row = lane % 4 * 2;
  return {tile + FloatTile<kColumns>::offset(row, lane / 4), tile + FloatTile<kColumns>::offset(row + 1, lane / 4)};
}

// Which column of the output element e of the n-th block of 8 columns is: a lane reads four blocks' values as one chunk.
__device__ __forceinline__ int output_column(int lane, int n, int e) { return n / 4 * 32 + lane % 4 * 8 + e % 2 * 4 + n % 4; }

// sums = shrink sums + weights values: weights are sums of an earlier product; values are rows of kColumns floats.
template <Split kSplit, int kDepth, int kColumns>
__device__ __forceinline__ void multiply_float_weights(Sums<1, kColumns>& sums, const float (&shrink)[1][2],
                                                       const Sums<1, kDepth>& weights, const ValueLane& values) {
  constexpr int kPitch = FloatTile<kColumns>::kPitch;
  constexpr int kSteps = kStepsOfSum<kSplit, kColumns>;
#pragma unroll
  for (int k = 0; k < kDepth / 8; k += kSteps) {
    LeftParts parts[kSteps];
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const float(&x)[4] = weights[0][k + s];
      split_left<kSplit>(parts[s], x[0], x[2], x[1], x[3]);  // steps of the product are keys 0 2 4 6 1 3 5 7
    }
#pragma unroll
    for (int q = 0; q < kColumns / 32; ++q) {
      float sum[4][4] = {};
      multiply_steps<kSplit, kSteps>(sum, parts, [&](int s, Parts(&parts_of_right)[8]) {
        const int at = (k + s) * 8 * kPitch + q * 128;
        const uint4 even = ptx::load_shared(values.even + at);
        const uint4 odd = ptx::load_shared(values.odd + at);
        const std::uint32_t bits[8] = {even.x, odd.x, even.y, odd.y, even.z, odd.z, even.w, odd.w};
#pragma unroll
        for (int i = 0; i < 8; ++i) parts_of_right[i] = split<kSplit>(__uint_as_float(bits[i]));
      });
#pragma unroll
      for (int n = 0; n < 4; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          float& x = sums[0][4 * q + n][e];
          x = k == 0 ? fmaf(x, shrink[0][e / 2], sum[n][e]) : x + sum[n][e];
        }
      }
    }
  }
}

}  // namespace dhyan::cuda::tile

// SPDX-License-Identifier: Apache-2.0
// How sums of gradients of queries lie in memory: as a warp has them, so that what it adds at once are whole lines.
#pragma once

#include <cstdint>

#include "cuda/ptx/red.cuh"

namespace dhyan::cuda::portable {

// Rows in order (kRows, where sequences begin anywhere) or in groups of 8, of which blocks of 16 columns lie one after the
// other.
template <bool kRows>
struct SumsOrder {
  static constexpr int kBlock = kRows ? 16 : 128;  // floats between blocks of 16 columns
#if __CUDA_ARCH__ >= 900
  static constexpr int kLane = 4, kNext = 1;  // a lane's four lie side by side
#else
  static constexpr int kLane = kRows ? 2 : 1, kNext = kRows ? 1 : 32;
#endif

  // Where the lane's part of a group of 8 rows begins: its row is lane / 4, its columns 2(lane % 4), the next, and those 8 on.
  __device__ __forceinline__ static int of_lane(int lane, int width) {
    return kRows ? lane / 4 * width + lane % 4 * kLane : lane * kLane;
  }
  // The distance of a lane's element i, in the order of those columns.
  __device__ __forceinline__ static constexpr int of_element(int i) {
    return kRows && kLane == 2 ? i / 2 * 8 + i % 2 : i * kNext;
  }
  __device__ __forceinline__ static void add(float* to, float x0, float x1, float x2, float x3) {
#if __CUDA_ARCH__ >= 900
    ptx::add(to, x0, x1, x2, x3);
#else
    ptx::add(to + of_element(0), x0);
    ptx::add(to + of_element(1), x1);
    ptx::add(to + of_element(2), x2);
    ptx::add(to + of_element(3), x3);
#endif
  }
  // The 16 columns of a block in one row; `row` counts from the first of a group on.
  __device__ __forceinline__ static void read(float (&to)[16], const float* sums, std::int64_t row, int width, int block) {
    const float* group = sums + row / 8 * 8 * width + block * kBlock;
    const int row_of_group = static_cast<int>(row % 8);
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      const float* from = group + of_lane(row_of_group * 4 + t, width);
#if __CUDA_ARCH__ >= 900
      const float4 x = *reinterpret_cast<const float4*>(from);
      const float four[4] = {x.x, x.y, x.z, x.w};
#else
      const float four[4] = {from[of_element(0)], from[of_element(1)], from[of_element(2)], from[of_element(3)]};
#endif
#pragma unroll
      for (int i = 0; i < 4; ++i) to[i / 2 * 8 + 2 * t + i % 2] = four[i];
    }
  }
};

}  // namespace dhyan::cuda::portable

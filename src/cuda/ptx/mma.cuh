// SPDX-License-Identifier: Apache-2.0
// mma.sync: one warp multiplies small matrices held in its registers (PTX ISA, "Matrix fragments for mma.m16n8k16").
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace dhyan::cuda::ptx {

// sum[16x8] += left[16x16] * right[16x8], sums in f32. Lane l holds of sum rows l/4 and l/4 + 8, columns 2(l%4) and the next.
template <class T>
__device__ __forceinline__ void mma_16x8x16(float (&sum)[4], const std::uint32_t (&left)[4], std::uint32_t right0,
                                            std::uint32_t right1);

template <>
__device__ __forceinline__ void mma_16x8x16<__half>(float (&sum)[4], const std::uint32_t (&left)[4], std::uint32_t right0,
                                                    std::uint32_t right1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right0), "r"(right1));
}

template <>
__device__ __forceinline__ void mma_16x8x16<__nv_bfloat16>(float (&sum)[4], const std::uint32_t (&left)[4],
                                                           std::uint32_t right0, std::uint32_t right1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right0), "r"(right1));
}

// sum[16x8] += left[16x8] * right[8x8] of TF32: floats whose lower 13 bits do not count. Lane l holds of left rows l/4 and
// l/4 + 8 of column l%4, then of column l%4 + 4; of right rows l%4 and l%4 + 4 of column l/4.
__device__ __forceinline__ void mma_16x8x8(float (&sum)[4], const std::uint32_t (&left)[4], std::uint32_t right0,
                                           std::uint32_t right1) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right0), "r"(right1));
}

// Rounded to nearest.
__device__ __forceinline__ std::uint32_t tf32(float x) {
  std::uint32_t y;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
  return y;
}

}  // namespace dhyan::cuda::ptx

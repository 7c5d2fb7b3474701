// SPDX-License-Identifier: Apache-2.0
// ldmatrix: a warp loads four 8x8 matrices of 16-bit elements; lanes 8i to 8i+7 give the shared addresses of matrix i's rows.
#pragma once

#include <cstdint>

namespace dhyan::cuda::ptx {

__device__ __forceinline__ void ldmatrix(std::uint32_t (&to)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address));
}

__device__ __forceinline__ void ldmatrix_transposed(std::uint32_t (&to)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address));
}

}  // namespace dhyan::cuda::ptx

// SPDX-License-Identifier: Apache-2.0
// red: adds to global memory, atomically for each element.
#pragma once

namespace dhyan::cuda::ptx {

__device__ __forceinline__ void add(float* to, float x) {
  asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(to), "f"(x) : "memory");
}

#if __CUDA_ARCH__ >= 900
// Four neighbours, aligned to 16 bytes.
__device__ __forceinline__ void add(float* to, float x0, float x1, float x2, float x3) {
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(x0), "f"(x1), "f"(x2), "f"(x3)
               : "memory");
}
#endif

}  // namespace dhyan::cuda::ptx

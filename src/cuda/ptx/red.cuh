// SPDX-License-Identifier: Apache-2.0
// red: adds to global memory, atomically for each element.
#pragma once

namespace dhyan::cuda::ptx {

// Two neighbours, aligned to 8 bytes.
__device__ __forceinline__ void add(float* to, float first, float second) {
#if __CUDA_ARCH__ >= 900
  asm volatile("red.relaxed.gpu.global.add.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(first), "f"(second) : "memory");
#else
  asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(to), "f"(first) : "memory");
  asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(to + 1), "f"(second) : "memory");
#endif
}

}  // namespace dhyan::cuda::ptx

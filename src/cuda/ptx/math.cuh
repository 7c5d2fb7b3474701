// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace dhyan::cuda::ptx {

// 2^x to 2 units in the last place; results below the smallest normal float are 0.
__device__ __forceinline__ float exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace dhyan::cuda::ptx

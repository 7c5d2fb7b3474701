// SPDX-License-Identifier: Apache-2.0
// Barriers of a part of a block: whole warps that agree on a number from 1 to 15.
#pragma once

namespace dhyan::cuda::ptx {

__device__ __forceinline__ void barrier(int number, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// Whether it holds for one of the threads.
__device__ __forceinline__ bool barrier_or(int number, int threads, bool holds) {
  int any;
  asm volatile(
      "{.reg .pred of_one, of_any;\n"
      " setp.ne.s32 of_one, %3, 0;\n"
      " bar.red.or.pred of_any, %1, %2, of_one;\n"
      " selp.s32 %0, 1, 0, of_any;}"
      : "=r"(any)
      : "r"(number), "r"(threads), "r"(static_cast<int>(holds))
      : "memory");
  return any != 0;
}

}  // namespace dhyan::cuda::ptx

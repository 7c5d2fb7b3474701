// SPDX-License-Identifier: Apache-2.0
// Programmatic dependent launch: a kernel starts while the one before it ends. Without effect before compute capability 9.0.
#pragma once

namespace dhyan::cuda::ptx {

// From here on the next kernel may start; what this one writes later it sees after its own wait only.
__device__ __forceinline__ void let_dependents_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Until the kernels before have ended and what they wrote can be read.
__device__ __forceinline__ void wait_for_former() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace dhyan::cuda::ptx

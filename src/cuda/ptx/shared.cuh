// SPDX-License-Identifier: Apache-2.0
// Shared memory by its 32-bit addresses.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace dhyan::cuda::ptx {

__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void store_shared(std::uint32_t to, uint4 x) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w) : "memory");
}

__device__ __forceinline__ void store_shared(std::uint32_t to, std::uint32_t x) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(x) : "memory");
}

__device__ __forceinline__ uint4 load_shared(std::uint32_t from) {
  uint4 x;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "r"(from) : "memory");
  return x;
}

}  // namespace dhyan::cuda::ptx

// SPDX-License-Identifier: Apache-2.0
// cp.async: copies from global to shared memory that no register waits for.
#pragma once

#include <cstdint>

namespace dhyan::cuda::ptx {

// 16 bytes, both sides aligned to 16.
__device__ __forceinline__ void cp_async(std::uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

// 16 bytes, of which the first `bytes` come from `from` and the rest are 0; `from` is aligned to 16 bytes even when bytes is 0.
__device__ __forceinline__ void cp_async(std::uint32_t to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

// 4 bytes, 0 where there is nothing to copy.
__device__ __forceinline__ void cp_async_word(std::uint32_t to, const void* from, bool there) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(there ? 4 : 0) : "memory");
}

// Ends a group of copies.
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most `kPending` of this thread's groups, the latest, are under way.
template <int kPending>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace dhyan::cuda::ptx

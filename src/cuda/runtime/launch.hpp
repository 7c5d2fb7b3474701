// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <type_traits>

#include "cuda/runtime/error.hpp"

namespace dhyan::cuda {

// Launches and reports a launch that fails, by its own status: what others left on the thread stays theirs.
template <class... Parameters>
void launch(const char* name, void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
            cudaStream_t stream, std::type_identity_t<Parameters>... arguments) {
  void* pointers[] = {const_cast<void*>(static_cast<const void*>(&arguments))...};
  check_launch(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, block, pointers, shared_bytes, stream), name, grid,
               block, shared_bytes);
}

// The same; with `early` (compute capability 9.0 on) the kernel starts before the one before it has ended and waits for it
// itself (ptx/dependent.cuh).
template <class... Parameters>
void launch_dependent(bool early, const char* name, void (*kernel)(Parameters...), dim3 grid, dim3 block,
                      std::size_t shared_bytes, cudaStream_t stream, const std::type_identity_t<Parameters>&... arguments) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = early ? 1 : 0;
  void* pointers[] = {const_cast<void*>(static_cast<const void*>(&arguments))...};
  check_launch(cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(kernel), pointers), name, grid, block, shared_bytes);
}

}  // namespace dhyan::cuda

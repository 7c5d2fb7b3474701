// SPDX-License-Identifier: Apache-2.0
// CUDA's statuses as errors of this library.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace dhyan::cuda {

// Throws Error, "action: what CUDA says", unless the status is success. The status is taken off the thread's last error, so
// that nobody finds it there later.
void check(cudaError_t status, const char* action);

// The same for a launch: the kernel's name and its configuration.
void check_launch(cudaError_t status, const char* kernel, dim3 grid, dim3 block, std::size_t shared_bytes);

}  // namespace dhyan::cuda

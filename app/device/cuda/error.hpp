// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

namespace dhyan::app {

// Throws Error, "action: what CUDA says", unless the status is success.
void check(cudaError_t status, const char* action);

// Makes the device current.
void use(int device);

}  // namespace dhyan::app

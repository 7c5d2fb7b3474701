// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/error.hpp"

#include <fmt/format.h>

#include "dhyan/dhyan.hpp"

namespace dhyan::app {

void check(cudaError_t status, const char* action) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // not for the next one to find
  throw Error(status == cudaErrorMemoryAllocation ? Status::out_of_memory : Status::device_error,
              fmt::format("{}: {}", action, cudaGetErrorString(status)));
}

void use(int device) { check(cudaSetDevice(device), "cudaSetDevice"); }

}  // namespace dhyan::app

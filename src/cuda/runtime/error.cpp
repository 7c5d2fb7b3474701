// SPDX-License-Identifier: Apache-2.0
#include "cuda/runtime/error.hpp"

#include <string>

#include "core/error.hpp"

namespace dhyan::cuda {
namespace {

[[noreturn]] void raise(cudaError_t status, const std::string& action) {
  cudaGetLastError();
  throw core::Error(status == cudaErrorMemoryAllocation ? DHYAN_OUT_OF_MEMORY : DHYAN_DEVICE_ERROR,
                    action + ": " + cudaGetErrorString(status) + " (" + cudaGetErrorName(status) + ")");
}

std::string text(dim3 x) {
  return std::string("(").append(std::to_string(x.x) + ", " + std::to_string(x.y) + ", " + std::to_string(x.z) + ")");
}

}  // namespace

void check(cudaError_t status, const char* action) {
  if (status != cudaSuccess) raise(status, action);
}

void check_launch(cudaError_t status, const char* kernel, dim3 grid, dim3 block, std::size_t shared_bytes) {
  if (status == cudaSuccess) return;
  raise(status, std::string("launch of ") + kernel + ", grid " + text(grid) + ", block " + text(block) + ", " +
                    std::to_string(shared_bytes) + " bytes of shared memory");
}

}  // namespace dhyan::cuda

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "cuda/device.hpp"
#include "cuda/runtime/guard.hpp"
#include "cuda/runtime/launch.hpp"
#include "cuda/tile/element.cuh"

namespace dhyan::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMaxBlocks = std::int64_t{1} << 16;

struct Place {
  std::int64_t shape[DHYAN_MAX_RANK];
  std::int64_t strides[DHYAN_MAX_RANK];
};

__global__ void __launch_bounds__(kThreads)
    zero_elements(const Place place, std::int64_t elements, void* data, dhyan_dtype dtype) {
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < elements;
       i += std::int64_t{gridDim.x} * kThreads) {
    std::int64_t at = 0;
    std::int64_t rest = i;
#pragma unroll
    for (int d = DHYAN_MAX_RANK - 1; d >= 0; --d) {
      at += rest % place.shape[d] * place.strides[d];
      rest /= place.shape[d];
    }
    tile::store_element(data, dtype, at, 0.0);
  }
}

}  // namespace

void zero(const Shape& shape, const View& view, std::int32_t device, void* stream) {
  const DeviceGuard guard(device);
  Place place;
  std::int64_t elements = 1;
  for (int d = 0; d < DHYAN_MAX_RANK; ++d) {
    place.shape[d] = shape[d];
    place.strides[d] = view.strides[d];
    elements *= shape[d];
  }
  const dim3 grid(static_cast<unsigned>(std::min((elements + kThreads - 1) / kThreads, kMaxBlocks)));
  launch("zero", zero_elements, grid, dim3(kThreads), 0, static_cast<cudaStream_t>(stream), place, elements, view.data,
         view.dtype);
}

}  // namespace dhyan::cuda

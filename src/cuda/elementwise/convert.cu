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

// Both views under one shape whose dimensions no longer join.
struct Pair {
  int rank = 0;
  std::int64_t shape[DHYAN_MAX_RANK] = {};
  std::int64_t from[DHYAN_MAX_RANK] = {};
  std::int64_t to[DHYAN_MAX_RANK] = {};
};

Pair joined(const Shape& shape, const View& source, const View& destination) {
  Pair pair;
  for (int i = 0; i < DHYAN_MAX_RANK; ++i) {
    const std::int64_t size = shape[i];
    if (size == 1) continue;
    const int last = pair.rank - 1;
    if (last >= 0 && pair.from[last] == source.strides[i] * size && pair.to[last] == destination.strides[i] * size) {
      pair.shape[last] *= size;
      pair.from[last] = source.strides[i];
      pair.to[last] = destination.strides[i];
      continue;
    }
    pair.shape[pair.rank] = size;
    pair.from[pair.rank] = source.strides[i];
    pair.to[pair.rank] = destination.strides[i];
    ++pair.rank;
  }
  return pair;
}

__global__ void __launch_bounds__(kThreads)
    convert_elements(const Pair pair, std::int64_t elements, const void* source, dhyan_dtype source_type, void* destination,
                     dhyan_dtype destination_type) {
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < elements;
       i += std::int64_t{gridDim.x} * kThreads) {
    std::int64_t from = 0;
    std::int64_t to = 0;
    std::int64_t rest = i;
#pragma unroll
    for (int d = DHYAN_MAX_RANK - 1; d > 0; --d) {
      if (d >= pair.rank) continue;
      const std::int64_t index = rest % pair.shape[d];
      rest /= pair.shape[d];
      from += index * pair.from[d];
      to += index * pair.to[d];
    }
    from += rest * pair.from[0];
    to += rest * pair.to[0];
    tile::store_element(destination, destination_type, to, tile::element<double>(source, source_type, from));
  }
}

}  // namespace

void convert(const Shape& shape, const View& source, const View& destination, std::int32_t device, void* stream) {
  const DeviceGuard guard(device);
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) elements *= size;
  const dim3 grid(static_cast<unsigned>(std::min((elements + kThreads - 1) / kThreads, kMaxBlocks)));
  launch("convert", convert_elements, grid, dim3(kThreads), 0, static_cast<cudaStream_t>(stream),
         joined(shape, source, destination), elements, source.data, source.dtype, destination.data, destination.dtype);
}

}  // namespace dhyan::cuda

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/sequence.hpp"
#include "cuda/portable/combine.hpp"
#include "cuda/ptx/dependent.cuh"
#include "cuda/runtime/launch.hpp"
#include "cuda/tile/element.cuh"

namespace dhyan::cuda::portable {
namespace {

constexpr int kThreads = 128;
constexpr int kLanes = 32;
constexpr int kPerLane = kMaxSplits / kLanes;

// A warp joins one row.
__global__ void __launch_bounds__(kThreads) combine_rows(const __grid_constant__ ForwardArguments a) {
  __shared__ float weights[kThreads / kLanes][kMaxSplits];
  const core::Problem& p = a.p;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int warp = static_cast<int>(threadIdx.x) / kLanes;
  const std::int64_t rows = p.batch * p.query_heads * p.query_length;
  const std::int64_t width = p.value_head_dim;
  const std::int64_t row = std::int64_t{blockIdx.x} * (kThreads / kLanes) + warp;
  if (row >= rows) return;  // no barrier below is for more than a warp
  const std::int64_t t = row % p.query_length;
  const std::int64_t n = row / p.query_length % p.query_heads;
  const std::int64_t b = row / p.query_length / p.query_heads;
  const core::Sequence sequence = core::sequence(p, a.buffers, b);
  const bool held = t < sequence.query_count;
  if (!held && p.packed) return;
  const float sink = p.sink.present() && held ? static_cast<const float*>(a.buffers.sink)[n * p.sink.strides[0]] : -INFINITY;
  ptx::wait_for_former();

  float lse[kPerLane];
  float most = sink;
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const int split = i * kLanes + lane;
    lse[i] = split < a.splits && held ? a.part_lse[split * rows + row] : -INFINITY;
    most = fmaxf(most, lse[i]);
  }
  for (int distance = kLanes / 2; distance > 0; distance /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, distance));
  const float reference = most == -INFINITY ? 0 : most;
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const float weight = expf(lse[i] - reference);
    weights[warp][i * kLanes + lane] = weight;
    sum += weight;
  }
  for (int distance = kLanes / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(~0u, sum, distance);
  sum += expf(sink - reference);
  __syncwarp();
  const float inverse = sum == 0 ? 0 : 1 / sum;

  const std::int64_t to = b * p.out.strides[0] + (sequence.query_begin + t) * p.out.strides[1] + n * p.out.strides[2];
  for (std::int64_t c = lane; c < width; c += kLanes) {
    float x = 0;
#pragma unroll 8
    for (int split = 0; split < a.splits; ++split) {
      const float weight = weights[warp][split];
      if (weight != 0) x += weight * a.part_out[(split * rows + row) * width + c];  // a part without weight may hold anything
    }
    tile::store_element(a.buffers.out, p.dtype, to + c, x * inverse);
  }
  if (p.lse.present() && lane == 0) {
    static_cast<float*>(
        a.buffers.lse)[b * p.lse.strides[0] + n * p.lse.strides[1] + (sequence.query_begin + t) * p.lse.strides[2]] =
        sum == 0 ? -INFINITY : reference + logf(sum);
  }
}

// Bits: an integer of the element's size.
template <class Bits>
__global__ void __launch_bounds__(kThreads)
    blank_rows(const __grid_constant__ core::Problem p, const __grid_constant__ core::Buffers buffers) {
  const std::int64_t rows = p.query_tokens * p.query_heads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y; i < rows;
       i += std::int64_t{gridDim.x} * blockDim.y) {
    const std::int64_t n = i % p.query_heads;
    const std::int64_t token = i / p.query_heads;
    Bits* to = static_cast<Bits*>(buffers.out) + token * p.out.strides[1] + n * p.out.strides[2];
    for (std::int64_t c = threadIdx.x; c < p.value_head_dim; c += blockDim.x) to[c] = 0;
    if (p.lse.present() && threadIdx.x == 0) {
      static_cast<float*>(buffers.lse)[n * p.lse.strides[1] + token * p.lse.strides[2]] = -INFINITY;
    }
  }
}

using BlankKernel = void (*)(core::Problem, core::Buffers);
BlankKernel blank_kernel(const core::Problem& p) {
  return p.dtype == DHYAN_F32 ? blank_rows<std::uint32_t> : blank_rows<std::uint16_t>;
}

}  // namespace

void combine(const ForwardArguments& a, bool early, cudaStream_t stream) {
  const std::int64_t rows = a.p.batch * a.p.query_heads * a.p.query_length;
  const dim3 grid(static_cast<unsigned>((rows * kLanes + kThreads - 1) / kThreads));
  launch_dependent("fused forward, combine", combine_rows, grid, dim3(kThreads), 0, stream, a, early);
}

void blank(const core::Problem& p, const core::Buffers& buffers, cudaStream_t stream) {
  const dim3 block(kLanes, kThreads / kLanes);
  const std::int64_t blocks = (p.query_tokens * p.query_heads + block.y - 1) / block.y;
  if (blocks == 0) return;
  const dim3 grid(static_cast<unsigned>(std::min(blocks, std::int64_t{1} << 20)));
  launch("fused, blank rows", blank_kernel(p), grid, block, 0, stream, p, buffers);
}

void load_combine(const core::Problem& p) {
  cudaFuncAttributes attributes;
  check(cudaFuncGetAttributes(&attributes, combine_rows), "fused forward, combine");
  check(cudaFuncGetAttributes(&attributes, blank_kernel(p)), "fused, blank rows");
}

}  // namespace dhyan::cuda::portable

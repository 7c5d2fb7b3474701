// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/sequence.hpp"
#include "cuda/portable/combine.hpp"
#include "cuda/portable/forward_block.cuh"
#include "cuda/ptx/dependent.cuh"
#include "cuda/runtime/launch.hpp"
#include "cuda/tile/element.cuh"

namespace dhyan::cuda::portable {
namespace {

constexpr int kThreads = 256;
constexpr int kLanes = 32;
constexpr int kWarps = kThreads / kLanes;
constexpr int kPerLane = kMaxSplits / kLanes;
constexpr int kWidest = 512;  // of a row

// This lane's four columns, or its one, of this warp's splits, weighed.
template <class Columns>
__device__ void add_parts(const ForwardArguments& a, const float* weights, std::int64_t rows, std::int64_t row, int warp,
                          int lane, float* sums) {
  constexpr int kColumns = sizeof(Columns) / sizeof(float);
  const int width = a.value_head_dim;
  for (int c = lane * kColumns; c < width; c += kLanes * kColumns) {
    float x[kColumns] = {};
#pragma unroll 8
    for (int split = warp; split < a.splits; split += kWarps) {
      const auto part = *reinterpret_cast<const Columns*>(a.part_out + (split * rows + row) * width + c);
      const float weight = weights[split];
#pragma unroll
      for (int e = 0; e < kColumns; ++e) x[e] += weight * reinterpret_cast<const float*>(&part)[e];
    }
#pragma unroll
    for (int e = 0; e < kColumns; ++e) sums[c + e] = x[e];
  }
}

// A block joins one row.
__global__ void __launch_bounds__(kThreads) combine_rows(const __grid_constant__ ForwardArguments a) {
  __shared__ float weights[kMaxSplits];
  __shared__ float sums[kWarps][kWidest];
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kLanes;
  const int warp = thread / kLanes;
  const int heads = a.key_heads * a.group;
  const std::int64_t rows = a.batch * heads * a.query_length;
  const std::int64_t row = blockIdx.x;
  const int t = static_cast<int>(row % a.query_length);
  const int n = static_cast<int>(row / a.query_length % heads);
  const std::int64_t b = row / a.query_length / heads;
  ptx::wait_for_former();
  const core::Sequence sequence = sequence_of(a, b);
  const bool held = t < sequence.query_count;
  if (!held && a.packed) return;
  const float sink = a.sink != nullptr && held ? a.sink[n * a.sink_stride] : -INFINITY;

  float lse[kPerLane];
  float most = sink;
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const int split = i * kLanes + lane;
    lse[i] = split < a.splits && held ? a.part_lse[split * rows + row] : -INFINITY;
    most = fmaxf(most, lse[i]);
  }
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, distance));
  const float reference = most == -INFINITY ? 0 : most;
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const float weight = expf(lse[i] - reference);
    if (warp == 0) weights[i * kLanes + lane] = weight;
    sum += weight;
  }
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(~0u, sum, distance);
  sum += expf(sink - reference);
  __syncthreads();
  if (a.value_head_dim % 4 == 0) {
    add_parts<float4>(a, weights, rows, row, warp, lane, sums[warp]);
  } else {
    add_parts<float>(a, weights, rows, row, warp, lane, sums[warp]);
  }
  __syncthreads();

  const float inverse = sum == 0 ? 0 : 1 / sum;
  const std::int64_t token = sequence.query_begin + t;
  const std::int64_t to = b * a.out_strides.batch + token * a.out_strides.token + n * a.out_strides.head;
  for (int c = thread; c < a.value_head_dim; c += kThreads) {
    float x = 0;
#pragma unroll
    for (int i = 0; i < kWarps; ++i) x += sums[i][c];
    tile::store_element(a.out, a.dtype, to + c, x * inverse);
  }
  if (a.lse != nullptr && thread == 0) {
    a.lse[b * a.lse_strides.batch + token * a.lse_strides.token + n * a.lse_strides.head] =
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
  const std::int64_t rows = a.batch * a.key_heads * a.group * a.query_length;
  launch_dependent(early, "fused forward, combine", combine_rows, dim3(static_cast<unsigned>(rows)), dim3(kThreads), 0, stream,
                   a);
}

void blank(const core::Problem& p, const core::Buffers& buffers, cudaStream_t stream) {
  const dim3 block(kLanes, kWarps);
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

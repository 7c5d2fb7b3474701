// SPDX-License-Identifier: Apache-2.0
// What lies before and after the products of a backward pass.
#include <algorithm>

#include "core/sequence.hpp"
#include "cuda/portable/backward.hpp"
#include "cuda/ptx/math.cuh"
#include "cuda/runtime/launch.hpp"
#include "cuda/tile/element.cuh"
#include "cuda/tile/half.cuh"

namespace dhyan::cuda::portable {
namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr int kChunk = 8;  // elements of 16 bits in 16 bytes
constexpr float kLog2E = 1.44269504088896340736F;
constexpr std::int64_t kMaxBlocks = std::int64_t{1} << 20;  // blocks take several rows beyond it

// A query of one head.
struct QueryRow {
  std::int64_t b, n, t, token;
  std::int64_t row;  // of lse, delta and sums
  bool held, written;

  __device__ QueryRow(const BackwardArguments& a, std::int64_t i) {
    t = i % a.p.query_length;
    n = i / a.p.query_length % a.p.query_heads;
    b = i / a.p.query_length / a.p.query_heads;
    const core::Sequence sequence = core::sequence(a.p, a.buffers, b);
    held = t < sequence.query_count;
    written = held || !a.p.packed;
    token = sequence.query_begin + t;
    row = a.first_row(b, n, sequence.query_begin) + t;
  }
  // Of an operand with strides batch, token, head; with strides batch, head, token.
  __device__ std::int64_t at(const core::Operand& x) const {
    return b * x.strides[0] + token * x.strides[1] + n * x.strides[2];
  }
  __device__ std::int64_t statistic(const core::Operand& x) const {
    return b * x.strides[0] + n * x.strides[1] + token * x.strides[2];
  }
};

__device__ __forceinline__ std::int64_t rows_of(const core::Problem& p) { return p.batch * p.query_heads * p.query_length; }

// Eight neighbours, or as many as there are.
template <class T>
__device__ __forceinline__ void read_chunk(float (&to)[kChunk], const T* from, int count, bool aligned) {
  if (aligned && count >= kChunk) {
    const uint4 x = *reinterpret_cast<const uint4*>(from);
    const T* elements = reinterpret_cast<const T*>(&x);
#pragma unroll
    for (int e = 0; e < kChunk; ++e) to[e] = tile::widened(elements[e]);
    return;
  }
#pragma unroll
  for (int e = 0; e < kChunk; ++e) to[e] = e < count ? tile::widened(from[e]) : 0;
}

// `lanes` threads per row.
template <class T>
__global__ void __launch_bounds__(kThreads) prepare_rows(const __grid_constant__ BackwardArguments a) {
  const core::Problem& p = a.p;
  const int lane = static_cast<int>(threadIdx.x) % a.lanes;
  const int of_block = kThreads / a.lanes;
  const bool aligned = std::min(p.out.alignment, p.grad_out.alignment) >= 16;
  const std::int64_t all = rows_of(p);
  // Lanes of a warp take the same number of rounds, for the sum over the lanes of a row.
  for (std::int64_t first = std::int64_t{blockIdx.x} * of_block; first < all; first += std::int64_t{gridDim.x} * of_block) {
    const std::int64_t i = first + threadIdx.x / a.lanes;
    const QueryRow row(a, std::min(i, all - 1));
    const bool written = i < all && row.written;
    const float lse = row.held ? static_cast<const float*>(a.buffers.lse)[row.statistic(p.lse)] : -INFINITY;
    float sum = 0;
    if (written && lse != -INFINITY) {
      const T* out = static_cast<const T*>(a.buffers.out) + row.at(p.out);
      const T* grad = static_cast<const T*>(a.buffers.grad_out) + row.at(p.grad_out);
      for (int c = lane * kChunk; c < p.value_head_dim; c += a.lanes * kChunk) {
        float x[kChunk], g[kChunk];
        const int count = static_cast<int>(p.value_head_dim) - c;
        read_chunk(x, out + c, count, aligned);
        read_chunk(g, grad + c, count, aligned);
#pragma unroll
        for (int e = 0; e < kChunk; ++e) sum += x[e] * g[e];
      }
    }
    for (int distance = a.lanes / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(~0u, sum, distance);
    if (!written) continue;
    if (a.query_sums) {
      float* sums = a.query_sums + row.row * a.sums_width;
      for (int c = lane * 4; c < a.sums_width; c += a.lanes * 4) *reinterpret_cast<float4*>(sums + c) = make_float4(0, 0, 0, 0);
    }
    if (lane != 0) continue;
    if (lse != -INFINITY && p.grad_lse.present()) {
      sum -= static_cast<const float*>(a.buffers.grad_lse)[row.statistic(p.grad_lse)];
    }
    a.lse[row.row] = lse == -INFINITY ? INFINITY : lse * kLog2E;
    a.delta[row.row] = sum;
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) convert_rows(const __grid_constant__ BackwardArguments a) {
  const core::Problem& p = a.p;
  const int lane = static_cast<int>(threadIdx.x) % a.lanes;
  const int of_block = kThreads / a.lanes;
  const bool aligned = p.grad_query.alignment >= 16;
  for (std::int64_t i = std::int64_t{blockIdx.x} * of_block + threadIdx.x / a.lanes; i < rows_of(p);
       i += std::int64_t{gridDim.x} * of_block) {
    const QueryRow row(a, i);
    if (!row.written) continue;
    T* to = static_cast<T*>(a.buffers.grad_query) + row.at(p.grad_query);
    for (int c = lane * kChunk; c < p.head_dim; c += a.lanes * kChunk) {
      const float4* from = reinterpret_cast<const float4*>(a.query_sums + row.row * a.sums_width + c);
      const float4 low = from[0];
      const float4 high = from[1];
      const float x[kChunk] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
      std::uint32_t pairs[kChunk / 2];
#pragma unroll
      for (int e = 0; e < kChunk / 2; ++e) {
        pairs[e] = row.held ? tile::packed<T>(x[2 * e] * a.sums_scale, x[2 * e + 1] * a.sums_scale) : 0;
      }
      const int count = static_cast<int>(p.head_dim) - c;
      if (aligned && count >= kChunk) {
        *reinterpret_cast<uint4*>(to + c) = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
        continue;
      }
#pragma unroll
      for (int e = 0; e < kChunk; ++e) {
        if (e < count) reinterpret_cast<std::uint16_t*>(to + c)[e] = static_cast<std::uint16_t>(pairs[e / 2] >> (e % 2 * 16));
      }
    }
  }
}

// One block per head.
__global__ void __launch_bounds__(kThreads) sink_heads(const __grid_constant__ BackwardArguments a) {
  __shared__ double parts[kThreads / kWarp];
  const core::Problem& p = a.p;
  for (std::int64_t n = blockIdx.x; n < p.query_heads; n += gridDim.x) {
    const float sink = static_cast<const float*>(a.buffers.sink)[n * p.sink.strides[0]] * kLog2E;
    double sum = 0;
    for (std::int64_t j = threadIdx.x; j < p.batch * p.query_length; j += kThreads) {
      const QueryRow row(a, (j / p.query_length * p.query_heads + n) * p.query_length + j % p.query_length);
      if (row.held && a.lse[row.row] != INFINITY)
        sum -= static_cast<double>(ptx::exp2(sink - a.lse[row.row]) * a.delta[row.row]);
    }
    for (int distance = kWarp / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(~0u, sum, distance);
    if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int w = 1; w < kThreads / kWarp; ++w) sum += parts[w];
      static_cast<float*>(a.buffers.grad_sink)[n * p.grad_sink.strides[0]] = static_cast<float>(sum);
    }
    __syncthreads();
  }
}

__global__ void __launch_bounds__(kThreads) bias_totals(const __grid_constant__ BackwardArguments a) {
  const auto& shape = a.p.bias_shape;
  const std::int64_t elements = shape[0] * shape[1] * shape[2] * shape[3];
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < elements;
       i += std::int64_t{gridDim.x} * kThreads) {
    double sum = 0;
    for (int c = 0; c < a.bias_chunks; ++c) sum += static_cast<double>(a.bias_parts[c * elements + i]);
    std::int64_t rest = i;
    std::int64_t at = 0;
    for (int d = 3; d >= 0; --d) {
      at += rest % shape[static_cast<std::size_t>(d)] * a.p.grad_bias.strides[static_cast<std::size_t>(d)];
      rest /= shape[static_cast<std::size_t>(d)];
    }
    tile::store_element(a.buffers.grad_bias, a.p.grad_bias.dtype, at, static_cast<float>(sum));
  }
}

// A row of one token and head, all 0.
struct BlankRows {
  std::uint16_t* data;
  std::int64_t tokens, heads, width, token_stride, head_stride;
};
__global__ void __launch_bounds__(kThreads) blank_rows(const BlankRows x) {
  for (std::int64_t i = std::int64_t{blockIdx.x} * (kThreads / kWarp) + threadIdx.x / kWarp; i < x.tokens * x.heads;
       i += std::int64_t{gridDim.x} * (kThreads / kWarp)) {
    std::uint16_t* to = x.data + i / x.heads * x.token_stride + i % x.heads * x.head_stride;
    for (std::int64_t c = threadIdx.x % kWarp; c < x.width; c += kWarp) to[c] = 0;
  }
}

dim3 grid_of(std::int64_t items, std::int64_t each) {
  return dim3(static_cast<unsigned>(std::min((items + each - 1) / each, kMaxBlocks)));
}

BackwardKernel prepare_kernel(dhyan_dtype dtype) {
  return dtype == DHYAN_F16 ? prepare_rows<__half> : prepare_rows<__nv_bfloat16>;
}
BackwardKernel convert_kernel(dhyan_dtype dtype) {
  return dtype == DHYAN_F16 ? convert_rows<__half> : convert_rows<__nv_bfloat16>;
}

constexpr const char* kPrepare = "fused backward, rows before";
constexpr const char* kConvert = "fused backward, gradients of queries";
constexpr const char* kSink = "fused backward, gradients of the sink";
constexpr const char* kBias = "fused backward, sums of the bias";
constexpr const char* kBlank = "fused backward, blank rows";

void over_rows(const char* name, BackwardKernel kernel, const BackwardArguments& a, cudaStream_t stream) {
  const std::int64_t rows = a.p.batch * a.p.query_heads * a.p.query_length;
  if (rows == 0) return;
  launch(name, kernel, grid_of(rows, kThreads / a.lanes), dim3(kThreads), 0, stream, a);
}

}  // namespace

void prepare_backward(const BackwardArguments& a, cudaStream_t stream) {
  over_rows(kPrepare, prepare_kernel(a.p.dtype), a, stream);
}

void convert_sums(const BackwardArguments& a, cudaStream_t stream) {
  over_rows(kConvert, convert_kernel(a.p.dtype), a, stream);
}

void sum_sink(const BackwardArguments& a, cudaStream_t stream) {
  if (a.p.query_heads == 0) return;
  launch(kSink, sink_heads, grid_of(a.p.query_heads, 1), dim3(kThreads), 0, stream, a);
}

void sum_bias_parts(const BackwardArguments& a, cudaStream_t stream) {
  const auto& shape = a.p.bias_shape;
  launch(kBias, bias_totals, grid_of(shape[0] * shape[1] * shape[2] * shape[3], kThreads), dim3(kThreads), 0, stream, a);
}

void blank_gradients(const BackwardArguments& a, cudaStream_t stream) {
  const core::Problem& p = a.p;
  const auto blank = [&](const core::Operand& x, void* data, std::int64_t tokens, std::int64_t heads, std::int64_t width) {
    if (!x.present() || tokens * heads == 0) return;
    const BlankRows rows{static_cast<std::uint16_t*>(data), tokens, heads, width, x.strides[1], x.strides[2]};
    launch(kBlank, blank_rows, grid_of(tokens * heads, kThreads / kWarp), dim3(kThreads), 0, stream, rows);
  };
  blank(p.grad_query, a.buffers.grad_query, p.query_tokens, p.query_heads, p.head_dim);
  blank(p.grad_key, a.buffers.grad_key, p.key_tokens, p.key_heads, p.head_dim);
  blank(p.grad_value, a.buffers.grad_value, p.key_tokens, p.key_heads, p.value_head_dim);
}

void load_backward_steps(const core::Problem& p) {
  cudaFuncAttributes attributes;
  check(cudaFuncGetAttributes(&attributes, prepare_kernel(p.dtype)), kPrepare);
  check(cudaFuncGetAttributes(&attributes, convert_kernel(p.dtype)), kConvert);
  check(cudaFuncGetAttributes(&attributes, sink_heads), kSink);
  check(cudaFuncGetAttributes(&attributes, bias_totals), kBias);
  check(cudaFuncGetAttributes(&attributes, blank_rows), kBlank);
}

}  // namespace dhyan::cuda::portable

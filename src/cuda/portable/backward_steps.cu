// SPDX-License-Identifier: Apache-2.0
// What lies before and after the products of a backward pass.
#include <algorithm>

#include "core/sequence.hpp"
#include "cuda/portable/backward.hpp"
#include "cuda/portable/backward_sums.cuh"
#include "cuda/ptx/math.cuh"
#include "cuda/runtime/launch.hpp"
#include "cuda/tile/element.cuh"
#include "cuda/tile/half.cuh"

namespace dhyan::cuda::portable {
namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr int kChunk = 8;  // elements of 16 bits in 16 bytes
constexpr int kRowsOfBlock = 64;
constexpr float kLog2E = 1.44269504088896340736F;
constexpr std::int64_t kMaxBlocks = std::int64_t{1} << 20;  // blocks take several rows beyond it

// Eight neighbours, or as many as there are.
__device__ __forceinline__ void read_chunk(float (&to)[kChunk], const float* from, int count, bool aligned) {
  if (aligned && count >= kChunk) {
    const float4 low = reinterpret_cast<const float4*>(from)[0];
    const float4 high = reinterpret_cast<const float4*>(from)[1];
    const float x[kChunk] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (int e = 0; e < kChunk; ++e) to[e] = x[e];
    return;
  }
#pragma unroll
  for (int e = 0; e < kChunk; ++e) to[e] = e < count ? from[e] : 0;
}
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

// The rows of one block: kRowsOfBlock queries of one head, `lanes` threads per row.
struct RowBlock {
  std::int64_t b, n;
  core::Sequence sequence;
  int first, row, lane, step;

  __device__ RowBlock(const BackwardArguments& a, int lanes) {
    const unsigned blocks = static_cast<unsigned>(a.row_blocks);
    const unsigned heads = static_cast<unsigned>(a.p.query_heads);
    first = static_cast<int>(blockIdx.x % blocks) * kRowsOfBlock;
    n = blockIdx.x / blocks % heads;
    b = blockIdx.x / blocks / heads;
    sequence = core::sequence(a.p, a.buffers, b);
    lane = static_cast<int>(threadIdx.x) % lanes;
    row = static_cast<int>(threadIdx.x) / lanes;
    step = kThreads / lanes;
  }
  // Of an operand with strides batch, token, head: the sequence's first row.
  template <class T>
  __device__ T* rows(const core::Operand& x, T* data) const {
    return data + b * x.strides[0] + sequence.query_begin * x.strides[1] + n * x.strides[2];
  }
  // Of an operand with strides batch, head, token.
  __device__ const float* statistics(const core::Operand& x, const void* data) const {
    return static_cast<const float*>(data) + b * x.strides[0] + n * x.strides[1] + sequence.query_begin * x.strides[2];
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads) prepare_rows(const __grid_constant__ BackwardArguments a) {
  const core::Problem& p = a.p;
  const RowBlock block(a, a.lanes);
  const bool aligned = std::min(p.out.alignment, p.grad_out.alignment) >= 16;
  const int held = static_cast<int>(block.sequence.query_count);
  const int written = p.packed ? held : static_cast<int>(a.rows_of_head);  // rows of scratch that are there
  const std::int64_t base = a.first_row(block.b, block.n, block.sequence.query_begin);
  const T* const out = block.rows(p.out, static_cast<const T*>(a.buffers.out));
  const T* const grad_out = block.rows(p.grad_out, static_cast<const T*>(a.buffers.grad_out));
  const float* const lses = block.statistics(p.lse, a.buffers.lse);
  const int width = static_cast<int>(p.value_head_dim);
  for (int r = block.row; r < kRowsOfBlock; r += block.step) {  // as often for all of a warp
    const int t = block.first + r;
    const float lse = t < held ? lses[t * p.lse.strides[2]] : -INFINITY;
    float sum = 0;
    if (lse != -INFINITY) {
      for (int c = block.lane * kChunk; c < width; c += a.lanes * kChunk) {
        float x[kChunk], g[kChunk];
        read_chunk(x, out + t * p.out.strides[1] + c, width - c, aligned);
        read_chunk(g, grad_out + t * p.grad_out.strides[1] + c, width - c, aligned);
#pragma unroll
        for (int e = 0; e < kChunk; ++e) sum += x[e] * g[e];
      }
    }
    for (int distance = a.lanes / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(~0u, sum, distance);
    if (t >= written) continue;
    if (a.query_sums) {
      float* sums = a.query_sums + (base + t) * a.sums_width;
      for (int c = block.lane * 4; c < a.sums_width; c += a.lanes * 4) {
        *reinterpret_cast<float4*>(sums + c) = make_float4(0, 0, 0, 0);
      }
    }
    if (block.lane != 0) continue;
    if (lse != -INFINITY && p.grad_lse.present()) {
      sum -= block.statistics(p.grad_lse, a.buffers.grad_lse)[t * p.grad_lse.strides[2]];
    }
    a.lse[base + t] = lse == -INFINITY ? INFINITY : lse * kLog2E;
    a.delta[base + t] = sum;
  }
}

// A thread has 16 columns of a row.
template <class T>
__global__ void __launch_bounds__(kThreads) convert_rows(const __grid_constant__ BackwardArguments a) {
  constexpr int kColumns = 16;
  const core::Problem& p = a.p;
  const RowBlock block(a, a.sums_width / kColumns);
  const bool aligned = p.grad_query.alignment >= 16;
  const int held = static_cast<int>(block.sequence.query_count);
  const int written = p.packed ? held : static_cast<int>(p.query_length);
  const std::int64_t base = a.first_row(block.b, block.n, block.sequence.query_begin);
  T* const rows = block.rows(p.grad_query, static_cast<T*>(a.buffers.grad_query));
  const int column = block.lane * kColumns;
  const int count = static_cast<int>(p.head_dim) - column;
  if (count <= 0) return;
#pragma unroll 2
  for (int r = block.row; r < kRowsOfBlock; r += block.step) {
    const int t = block.first + r;
    if (t >= written) return;
    float x[kColumns] = {};
    if (t < held && p.packed) {
      SumsOrder<true>::read(x, a.query_sums, base + t, a.sums_width, block.lane);
    } else if (t < held) {
      SumsOrder<false>::read(x, a.query_sums, base + t, a.sums_width, block.lane);
    }
    std::uint32_t pairs[kColumns / 2];
#pragma unroll
    for (int e = 0; e < kColumns / 2; ++e) pairs[e] = tile::packed<T>(x[2 * e] * a.sums_scale, x[2 * e + 1] * a.sums_scale);
    T* to = rows + t * p.grad_query.strides[1] + column;
    if (aligned && count >= kColumns) {
      reinterpret_cast<uint4*>(to)[0] = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
      reinterpret_cast<uint4*>(to)[1] = make_uint4(pairs[4], pairs[5], pairs[6], pairs[7]);
      continue;
    }
#pragma unroll
    for (int e = 0; e < kColumns; ++e) {
      if (e < count) reinterpret_cast<std::uint16_t*>(to)[e] = static_cast<std::uint16_t>(pairs[e / 2] >> (e % 2 * 16));
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
      const std::int64_t b = j / p.query_length;
      const std::int64_t t = j % p.query_length;
      const core::Sequence sequence = core::sequence(p, a.buffers, b);
      if (t >= sequence.query_count) continue;
      const std::int64_t row = a.first_row(b, n, sequence.query_begin) + t;
      if (a.lse[row] != INFINITY) sum -= static_cast<double>(ptx::exp2(sink - a.lse[row]) * a.delta[row]);
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

// A row of one token and head, all 0; 16-bit words.
struct BlankRows {
  std::uint16_t* data;
  std::int64_t tokens, heads, width, token_stride, head_stride;
};
__global__ void __launch_bounds__(kThreads) blank_rows_of(const BlankRows x) {
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
  if (dtype == DHYAN_F32) return prepare_rows<float>;
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
  const std::int64_t blocks = a.p.batch * a.p.query_heads * a.row_blocks;
  if (blocks == 0) return;
  launch(name, kernel, dim3(static_cast<unsigned>(blocks)), dim3(kThreads), 0, stream, a);
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
    const std::int64_t words = p.dtype == DHYAN_F32 ? 2 : 1;
    const BlankRows rows{
        static_cast<std::uint16_t*>(data), tokens, heads, width * words, x.strides[1] * words, x.strides[2] * words};
    launch(kBlank, blank_rows_of, grid_of(tokens * heads, kThreads / kWarp), dim3(kThreads), 0, stream, rows);
  };
  blank(p.grad_query, a.buffers.grad_query, p.query_tokens, p.query_heads, p.head_dim);
  blank(p.grad_key, a.buffers.grad_key, p.key_tokens, p.key_heads, p.head_dim);
  blank(p.grad_value, a.buffers.grad_value, p.key_tokens, p.key_heads, p.value_head_dim);
}

void load_backward_steps(const core::Problem& p) {
  cudaFuncAttributes attributes;
  check(cudaFuncGetAttributes(&attributes, prepare_kernel(p.dtype)), kPrepare);
  if (p.dtype != DHYAN_F32) check(cudaFuncGetAttributes(&attributes, convert_kernel(p.dtype)), kConvert);
  check(cudaFuncGetAttributes(&attributes, sink_heads), kSink);
  check(cudaFuncGetAttributes(&attributes, bias_totals), kBias);
  check(cudaFuncGetAttributes(&attributes, blank_rows_of), kBlank);
}

}  // namespace dhyan::cuda::portable

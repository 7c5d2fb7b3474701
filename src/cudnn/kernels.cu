// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/sequence.hpp"
#include "cuda/runtime/launch.hpp"
#include "cudnn/kernels.hpp"

namespace dhyan::cudnn {
namespace {

using cuda::launch;

constexpr int kThreads = 128;
constexpr int kWarp = 32;
constexpr std::int64_t kMaxBlocks = std::int64_t{1} << 16;

// Blocks for this many threads; each takes several elements beyond the limit.
dim3 blocks(std::int64_t threads) {
  return dim3(static_cast<unsigned>(std::clamp<std::int64_t>((threads + kThreads - 1) / kThreads, 1, kMaxBlocks)));
}
__device__ std::int64_t first_thread() { return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ std::int64_t all_threads() { return std::int64_t{gridDim.x} * blockDim.x; }

__global__ void __launch_bounds__(kThreads)
    lengths_of_sequences(const __grid_constant__ core::Problem p, const __grid_constant__ core::Buffers buffers,
                         const __grid_constant__ Lengths lengths) {
  for (std::int64_t b = first_thread(); b <= p.batch; b += all_threads()) {
    const bool end = b == p.batch;
    const core::Sequence s = end ? core::Sequence{} : core::sequence(p, buffers, b);
    if (!end) {
      lengths.queries[b] = s.key_count == 0 ? 0 : static_cast<std::int32_t>(s.query_count);
      lengths.keys[b] = static_cast<std::int32_t>(s.key_count);
    }
    for (const OffsetsOf& offsets : lengths.offsets) {
      if (offsets.to == nullptr) continue;
      const std::int64_t tokens = !p.packed ? 0 : offsets.queries ? p.query_tokens : p.key_tokens;
      const std::int64_t begin = end ? tokens : offsets.queries ? s.query_begin : s.key_begin;
      offsets.to[b] = b * offsets.batch_stride + begin * offsets.token_stride;
    }
  }
}

// 16-bit elements of one tensor's row: a token of every head.
__device__ void blank_row(const core::Operand& x, void* data, std::int64_t b, std::int64_t token, std::int64_t heads,
                          std::int64_t width) {
  auto* row = static_cast<std::uint16_t*>(data) + b * x.strides[0] + token * x.strides[1];
  for (std::int64_t i = threadIdx.x % kWarp; i < heads * width; i += kWarp) row[i / width * x.strides[2] + i % width] = 0;
}

// What the direction writes for a query, or for a key, that has no part in anything.
__device__ void blank_query(const core::Problem& p, const core::Buffers& buffers, std::int64_t b, std::int64_t token,
                            bool held) {
  if (p.direction == DHYAN_BACKWARD) {
    if (p.grad_query.present()) blank_row(p.grad_query, buffers.grad_query, b, token, p.query_heads, p.head_dim);
    return;
  }
  blank_row(p.out, buffers.out, b, token, p.query_heads, p.value_head_dim);
  if (!p.lse.present()) return;
  for (std::int64_t n = threadIdx.x % kWarp; n < p.query_heads; n += kWarp) {
    const float nothing = held && p.sink.present() ? static_cast<const float*>(buffers.sink)[n * p.sink.strides[0]] : -INFINITY;
    static_cast<float*>(buffers.lse)[b * p.lse.strides[0] + n * p.lse.strides[1] + token * p.lse.strides[2]] = nothing;
  }
}
__device__ void blank_key(const core::Problem& p, const core::Buffers& buffers, std::int64_t b, std::int64_t token) {
  if (p.grad_key.present()) blank_row(p.grad_key, buffers.grad_key, b, token, p.key_heads, p.head_dim);
  if (p.grad_value.present()) blank_row(p.grad_value, buffers.grad_value, b, token, p.key_heads, p.value_head_dim);
}

// A warp per token.
__global__ void __launch_bounds__(kThreads)
    blank_tokens(const __grid_constant__ core::Problem p, const __grid_constant__ core::Buffers buffers, bool keys) {
  for (std::int64_t i = first_thread() / kWarp; i < (keys ? p.key_tokens : p.query_tokens); i += all_threads() / kWarp) {
    if (keys) {
      blank_key(p, buffers, 0, i);
    } else {
      blank_query(p, buffers, 0, i, false);
    }
  }
}

// Queries without a visible key; keys of a sequence without queries; dense: all past the lengths.
__global__ void __launch_bounds__(kThreads)
    blank_empty(const __grid_constant__ core::Problem p, const __grid_constant__ core::Buffers buffers, bool keys) {
  const std::int64_t rows = keys ? p.key_length : p.query_length;
  for (std::int64_t i = first_thread() / kWarp; i < p.batch * rows; i += all_threads() / kWarp) {
    const std::int64_t b = i / rows;
    const std::int64_t row = i % rows;
    const core::Sequence s = core::sequence(p, buffers, b);
    const bool held = row < (keys ? s.key_count : s.query_count);
    if (!held && p.packed) continue;  // another sequence's, or a gap
    if (keys) {
      if (!held || s.query_count == 0) blank_key(p, buffers, b, s.key_begin + row);
      continue;
    }
    const core::KeyRange seen = core::visible_keys(p, s, row);
    if (!held || seen.begin == seen.end) blank_query(p, buffers, b, s.query_begin + row, held);
  }
}

__global__ void __launch_bounds__(kThreads)
    lse_of_stats(const __grid_constant__ core::Problem p, const __grid_constant__ core::Buffers buffers, const float* stats) {
  for (std::int64_t i = first_thread(); i < p.batch * p.query_heads * p.query_length; i += all_threads()) {
    const std::int64_t t = i % p.query_length;
    const std::int64_t n = i / p.query_length % p.query_heads;
    const std::int64_t b = i / p.query_length / p.query_heads;
    const core::Sequence s = core::sequence(p, buffers, b);
    if (t >= s.query_count) continue;
    const std::int64_t at = b * p.lse.strides[0] + n * p.lse.strides[1] + (s.query_begin + t) * p.lse.strides[2];
    static_cast<float*>(buffers.lse)[at] = stats[i];
  }
}

__global__ void __launch_bounds__(kThreads)
    stats_of_lse(const __grid_constant__ core::Problem p, const __grid_constant__ core::Buffers buffers, float* stats) {
  for (std::int64_t i = first_thread(); i < p.batch * p.query_heads * p.query_length; i += all_threads()) {
    const std::int64_t t = i % p.query_length;
    const std::int64_t n = i / p.query_length % p.query_heads;
    const std::int64_t b = i / p.query_length / p.query_heads;
    const core::Sequence s = core::sequence(p, buffers, b);
    const core::KeyRange seen = core::visible_keys(p, s, t);
    float x = INFINITY;
    if (t < s.query_count && seen.begin < seen.end) {
      const std::int64_t at = b * p.lse.strides[0] + n * p.lse.strides[1] + (s.query_begin + t) * p.lse.strides[2];
      x = static_cast<const float*>(buffers.lse)[at];
      if (x == -INFINITY) x = INFINITY;
    }
    stats[i] = x;
  }
}

}  // namespace

void write_lengths(const core::Problem& p, const core::Buffers& buffers, const Lengths& lengths, void* stream) {
  launch("cudnn lengths", lengths_of_sequences, blocks(p.batch + 1), dim3(kThreads), 0, static_cast<cudaStream_t>(stream), p,
         buffers, lengths);
}

void blank_gaps(const core::Problem& p, const core::Buffers& buffers, void* stream) {
  auto* const on = static_cast<cudaStream_t>(stream);
  launch("cudnn gaps of queries", blank_tokens, blocks(p.query_tokens * kWarp), dim3(kThreads), 0, on, p, buffers, false);
  if (p.direction == DHYAN_FORWARD) return;
  launch("cudnn gaps of keys", blank_tokens, blocks(p.key_tokens * kWarp), dim3(kThreads), 0, on, p, buffers, true);
}

void blank_rows(const core::Problem& p, const core::Buffers& buffers, void* stream) {
  auto* const on = static_cast<cudaStream_t>(stream);
  launch("cudnn empty queries", blank_empty, blocks(p.batch * p.query_length * kWarp), dim3(kThreads), 0, on, p, buffers,
         false);
  if (p.direction == DHYAN_FORWARD) return;
  launch("cudnn empty keys", blank_empty, blocks(p.batch * p.key_length * kWarp), dim3(kThreads), 0, on, p, buffers, true);
}

void store_lse(const core::Problem& p, const core::Buffers& buffers, const float* stats, void* stream) {
  launch("cudnn lse", lse_of_stats, blocks(p.batch * p.query_heads * p.query_length), dim3(kThreads), 0,
         static_cast<cudaStream_t>(stream), p, buffers, stats);
}

void load_lse(const core::Problem& p, const core::Buffers& buffers, float* stats, void* stream) {
  launch("cudnn stats", stats_of_lse, blocks(p.batch * p.query_heads * p.query_length), dim3(kThreads), 0,
         static_cast<cudaStream_t>(stream), p, buffers, stats);
}

}  // namespace dhyan::cudnn

// SPDX-License-Identifier: Apache-2.0
// The f32 forward kernel's rows between global memory, shared memory and registers.
#pragma once

#include "cuda/portable/forward_block.cuh"
#include "cuda/portable/forward_scores.cuh"
#include "cuda/portable/operands.cuh"
#include "cuda/ptx/barrier.cuh"
#include "cuda/tile/float_products.cuh"
#include "cuda/tile/scores.cuh"

namespace dhyan::cuda::portable {

inline constexpr int kFloatsOfChunk = 4;

struct FloatRows {
  const float* first;
  std::int64_t stride;  // elements
  int count;            // rows there are; the tile's others become 0
  int width;            // elements of a row; the tile's other columns become 0

  __device__ __forceinline__ FloatRows from_row(int row) const { return {first + row * stride, stride, count - row, width}; }
};

// Keys or values of the block's batch entry and key head.
__device__ __forceinline__ FloatRows float_key_rows(const void* data, const RowStrides& strides, const ForwardBlock& block,
                                                    int width) {
  const tile::GlobalRows<float> rows = key_rows<float>(data, strides, block, width);
  return {rows.first, rows.stride, rows.count, rows.width};
}

// kRows rows by cp.async; the caller commits. Aligned: rows lie at multiples of 16 bytes.
template <int kRows, int kColumns, int kThreads>
__device__ __forceinline__ void load_float_rows(std::uint32_t to, const FloatRows& rows, bool aligned, int thread) {
  if (aligned) {  // as twice as many elements of 16 bits
    const tile::GlobalRows<__half> halves{reinterpret_cast<const __half*>(rows.first), 2 * rows.stride, rows.count,
                                          2 * rows.width};
    tile::load_tile<kRows, 2 * kColumns, kThreads>(to, halves, thread);
    return;
  }
#pragma unroll 4
  for (int i = thread; i < kRows * kColumns; i += kThreads) {
    const int row = i / kColumns;
    const int column = i % kColumns;
    const bool held = row < rows.count && column < rows.width;
    const std::uint32_t at = to + tile::FloatTile<kColumns>::offset(row, column / kFloatsOfChunk) + column % kFloatsOfChunk * 4;
    ptx::cp_async_word(at, held ? rows.first + row * rows.stride + column : rows.first, held);
  }
}

// Scaled on their way.
template <ForwardShape kShape>
__device__ __forceinline__ void load_float_queries(std::uint32_t to, const ForwardArguments& a, const ForwardBlock& block,
                                                   int thread) {
  constexpr int kChunks = kShape.head_dim / kFloatsOfChunk;
  const auto* all = static_cast<const float*>(a.query);
  const int chunk = thread % kChunks;
  const int count = a.head_dim - chunk * kFloatsOfChunk;
#pragma unroll 4
  for (int row = thread / kChunks; row < kShape.rows(); row += kShape.threads() / kChunks) {
    float4 x = make_float4(0, 0, 0, 0);
    if (count > 0 && row < block.rows && block.query(a, row) < block.queries) {
      const float* from = row_of(a, block, all, a.query_strides, row) + chunk * kFloatsOfChunk;
      if (a.aligned && count >= kFloatsOfChunk) {
        x = *reinterpret_cast<const float4*>(from);
      } else {
        x.x = from[0];
        if (count > 1) x.y = from[1];
        if (count > 2) x.z = from[2];
        if (count > 3) x.w = from[3];
      }
    }
    ptx::store_shared(to + tile::FloatTile<kShape.head_dim>::offset(row, chunk),
                      make_uint4(__float_as_uint(x.x * a.early), __float_as_uint(x.y * a.early), __float_as_uint(x.z * a.early),
                                 __float_as_uint(x.w * a.early)));
  }
}

// The group's first tile of keys from `tile` on, at most `last`, that the array mask leaves something of.
template <ForwardShape kShape>
__device__ int next_seen_of_group(const ForwardArguments& a, const Terms& terms, const ForwardBlock& block, int tile, int last,
                                  int group, int thread) {
  constexpr int kThreads = 32 * kShape.row_warps;
  constexpr int kKeys = kShape.keys_of_warp();
  for (; tile < last; tile += kShape.key_warps) {
    bool seen = false;
    for (int i = thread; i < block.rows * kKeys && !seen; i += kThreads) {
      const int t = block.query(a, i / kKeys);
      const int s = tile * kKeys + i % kKeys;
      if (t >= block.queries || s >= block.sequence.key_count) continue;
      const tile::ScoreRow row(terms.p, terms.buffers, block.b, block.head(a, i / kKeys), t, block.sequence.shift);
      seen = !row.hides(terms.p, terms.buffers, s);
    }
    if (ptx::barrier_or(1 + group, kThreads, seen)) break;
  }
  return tile;
}

// A lane has eight columns in a row of every 32.
template <ForwardShape kShape>
__device__ __forceinline__ void store_float_outputs(const Outputs<kShape>& out, const ForwardArguments& a,
                                                    const ForwardBlock& block, int warp_row, int lane) {
  const int width = a.value_head_dim;
  const bool split = a.splits > 1;
  const bool by_chunk = a.aligned && !split;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int r = row_of_lane(warp_row, lane, 0, h);
    if (r >= block.rows) continue;
    const int t = block.query(a, r);
    float* to = nullptr;
    if (split) {
      to = a.part_out + part_row(a, block, r) * width;
    } else {
      if (a.packed && t >= block.queries) continue;  // the next sequence's, or nobody's
      to = row_of(a, block, static_cast<float*>(a.out), a.out_strides, r);
    }
#pragma unroll
    for (int n = 0; n < kShape.head_dim / 8; n += 4) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int column = tile::output_column(lane, n, e);
        const float x[kFloatsOfChunk] = {out[0][n][2 * h + e], out[0][n + 1][2 * h + e], out[0][n + 2][2 * h + e],
                                         out[0][n + 3][2 * h + e]};
        if (by_chunk && column + kFloatsOfChunk <= width) {
          *reinterpret_cast<float4*>(to + column) = make_float4(x[0], x[1], x[2], x[3]);
        } else {
#pragma unroll
          for (int i = 0; i < kFloatsOfChunk; ++i) {
            if (column + i < width) to[column + i] = x[i];
          }
        }
      }
    }
  }
}

}  // namespace dhyan::cuda::portable

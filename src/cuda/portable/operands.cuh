// SPDX-License-Identifier: Apache-2.0
// The forward kernel's rows between global memory, shared memory and registers.
#pragma once

#include "cuda/portable/forward_block.cuh"
#include "cuda/tile/half.cuh"
#include "cuda/tile/products.cuh"
#include "cuda/tile/shared_tile.cuh"

namespace dhyan::cuda::portable {

// Keys or values of the block's batch entry and key head.
template <class T>
__device__ __forceinline__ tile::GlobalRows<T> key_rows(const core::Operand& x, const void* data, const ForwardBlock& block,
                                                        std::int64_t width) {
  const T* first = static_cast<const T*>(data) + block.b * x.strides[0] + block.sequence.key_begin * x.strides[1] +
                   block.key_head * x.strides[2];
  return {first, x.strides[1], static_cast<int>(block.sequence.key_count), static_cast<int>(width)};
}

// Rows [kRows which, kRows (which + 1)).
template <int kRows, int kColumns, int kThreads, class T>
__device__ __forceinline__ void load_rows(std::uint32_t to, const tile::GlobalRows<T>& all, int which, bool aligned,
                                          int thread) {
  const int first = which * kRows;
  const tile::GlobalRows<T> rows{all.first + first * all.stride, all.stride, all.count - first, all.width};
  if (aligned) {
    tile::load_tile<kRows, kColumns, kThreads>(to, rows, thread);
  } else {
    tile::load_tile_by_element<kRows, kColumns, kThreads>(to, rows, thread);
  }
}

// The block's rows of an operand with strides batch, token, head.
template <class T>
__device__ __forceinline__ T* row_of(const ForwardArguments& a, const ForwardBlock& block, const core::Operand& x, T* data,
                                     int row) {
  return data + block.b * x.strides[0] + (block.sequence.query_begin + block.query(a, row)) * x.strides[1] +
         block.head(a, row) * x.strides[2];
}

template <class T, ForwardShape kShape>
__device__ __forceinline__ void load_queries(std::uint32_t to, const ForwardArguments& a, const ForwardBlock& block,
                                             bool aligned, int thread) {
  constexpr int kChunks = kShape.head_dim / tile::kChunk;
  constexpr int kStep = kShape.threads() / kChunks;
  const auto* all = static_cast<const T*>(a.buffers.query);
  const int width = static_cast<int>(a.p.head_dim);
  if (a.group == 1) {
    const int held = min(block.rows, block.queries - block.first_row);
    const tile::GlobalRows<T> rows{row_of(a, block, a.p.query, all, 0), a.p.query.strides[1], held, width};
    if (aligned) {
      tile::load_tile<kShape.rows(), kShape.head_dim, kShape.threads()>(to, rows, thread);
    } else {
      tile::load_tile_by_element<kShape.rows(), kShape.head_dim, kShape.threads()>(to, rows, thread);
    }
    return;
  }
  const int chunk = thread % kChunks;
#pragma unroll 4
  for (int row = thread / kChunks; row < kShape.rows(); row += kStep) {  // a tile of one row each: same chunks for a thread
    const bool held = row < block.rows && block.query(a, row) < block.queries;
    const T* from = held ? row_of(a, block, a.p.query, all, row) + chunk * tile::kChunk : all;
    const int count = held ? min(max(width - chunk * tile::kChunk, 0), tile::kChunk) : 0;
    const std::uint32_t at = to + tile::SharedTile<kShape.head_dim>::offset(row, chunk);
    if (aligned) {
      ptx::cp_async(at, count > 0 ? from : all, count * 2);
    } else {
      ptx::store_shared(at, tile::chunk_by_element(from, count));
    }
  }
}

// A thread scales what it has loaded itself.
template <class T, ForwardShape kShape>
__device__ __forceinline__ void scale_queries(std::uint32_t queries, float factor, int thread) {
  constexpr int kChunks = kShape.head_dim / tile::kChunk;
#pragma unroll 4
  for (int row = thread / kChunks; row < kShape.rows(); row += kShape.threads() / kChunks) {
    const std::uint32_t at = queries + tile::SharedTile<kShape.head_dim>::offset(row, thread % kChunks);
    const uint4 x = ptx::load_shared(at);
    ptx::store_shared(at, make_uint4(tile::scaled<T>(x.x, factor), tile::scaled<T>(x.y, factor), tile::scaled<T>(x.z, factor),
                                     tile::scaled<T>(x.w, factor)));
  }
}

// Outputs, rounded, into the tile where queries were.
template <class T, ForwardShape kShape>
__device__ __forceinline__ void stage_outputs(std::uint32_t to, const Outputs<kShape>& out, int first_column, int warp_row,
                                              int lane) {
#pragma unroll
  for (int i = 0; i < kShape.row_tiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const std::uint32_t row = to + tile::SharedTile<kShape.head_dim>::offset(row_of_lane(warp_row, lane, i, h), 0) +
                                lane % 4 * 4 + first_column * 2;
#pragma unroll
      for (int j = 0; j < kShape.columns_of_warp() / 8; ++j) {
        ptx::store_shared(row ^ (j * tile::kChunkBytes), tile::packed<T>(out[i][j][2 * h], out[i][j][2 * h + 1]));
      }
    }
  }
}

template <class T, ForwardShape kShape>
__device__ __forceinline__ void store_outputs(std::uint32_t from, const ForwardArguments& a, const ForwardBlock& block,
                                              bool aligned, int thread) {
  constexpr int kChunks = kShape.head_dim / tile::kChunk;
  const int chunk = thread % kChunks;
  const int width = static_cast<int>(a.p.value_head_dim) - chunk * tile::kChunk;
  if (width <= 0) return;
  auto* all = static_cast<T*>(a.buffers.out);
#pragma unroll 4
  for (int row = thread / kChunks; row < block.rows; row += kShape.threads() / kChunks) {
    if (a.p.packed && block.query(a, row) >= block.queries) continue;  // the next sequence's, or nobody's
    const uint4 x = ptx::load_shared(from + tile::SharedTile<kShape.head_dim>::offset(row, chunk));
    T* to = row_of(a, block, a.p.out, all, row) + chunk * tile::kChunk;
    if (aligned && width >= tile::kChunk) {
      *reinterpret_cast<uint4*>(to) = x;
    } else {
      const std::uint32_t pairs[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
      for (int e = 0; e < tile::kChunk; ++e) {
        if (e < width) reinterpret_cast<std::uint16_t*>(to)[e] = static_cast<std::uint16_t>(pairs[e / 2] >> (e % 2 * 16));
      }
    }
  }
}

}  // namespace dhyan::cuda::portable

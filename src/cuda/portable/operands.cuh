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
__device__ __forceinline__ tile::GlobalRows<T> key_rows(const void* data, const RowStrides& strides, const ForwardBlock& block,
                                                        int width) {
  const T* first = static_cast<const T*>(data) + block.b * strides.batch + block.sequence.key_begin * strides.token +
                   block.key_head * strides.head;
  return {first, strides.token, static_cast<int>(block.sequence.key_count), width};
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

// One of the block's rows of queries or outputs.
template <class T>
__device__ __forceinline__ T* row_of(const ForwardArguments& a, const ForwardBlock& block, T* data, const RowStrides& strides,
                                     int row) {
  return data + block.b * strides.batch + (block.sequence.query_begin + block.query(a, row)) * strides.token +
         block.head(a, row) * strides.head;
}

template <class T, ForwardShape kShape>
__device__ __forceinline__ void load_queries(std::uint32_t to, const ForwardArguments& a, const ForwardBlock& block,
                                             bool aligned, int thread) {
  constexpr int kChunks = kShape.head_dim / tile::kChunk;
  const auto* all = static_cast<const T*>(a.query);
  if (a.group == 1) {
    const int held = min(block.rows, block.queries - block.first_row);
    const tile::GlobalRows<T> rows{row_of(a, block, all, a.query_strides, 0), a.query_strides.token, held, a.head_dim};
    load_rows<kShape.rows(), kShape.head_dim, kShape.threads()>(to, rows, 0, aligned, thread);
    return;
  }
  const int chunk = thread % kChunks;
  const int width = min(max(a.head_dim - chunk * tile::kChunk, 0), tile::kChunk);
#pragma unroll 1
  for (int row = thread / kChunks; row < kShape.rows(); row += kShape.threads() / kChunks) {
    const int count = row < block.rows && block.query(a, row) < block.queries ? width : 0;
    const T* from = count > 0 ? row_of(a, block, all, a.query_strides, row) + chunk * tile::kChunk : all;
    const std::uint32_t at = to + tile::SharedTile<kShape.head_dim>::offset(row, chunk);
    if (aligned) {
      ptx::cp_async(at, from, count * 2);
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

// The first `width` elements of a chunk.
template <class T>
__device__ __forceinline__ void store_by_element(T* to, uint4 x, int width) {
  const std::uint32_t pairs[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
  for (int e = 0; e < tile::kChunk; ++e) {
    if (e < width) reinterpret_cast<std::uint16_t*>(to)[e] = static_cast<std::uint16_t>(pairs[e / 2] >> (e % 2 * 16));
  }
}

template <class T, ForwardShape kShape>
__device__ __forceinline__ void store_outputs(std::uint32_t from, const ForwardArguments& a, const ForwardBlock& block,
                                              bool aligned, int thread) {
  using Tile = tile::SharedTile<kShape.head_dim>;
  constexpr int kChunks = kShape.head_dim / tile::kChunk;
  constexpr int kStep = kShape.threads() / kChunks;
  const int chunk = thread % kChunks;
  const int width = a.value_head_dim - chunk * tile::kChunk;
  if (width <= 0) return;
  // Packed: rows past the sequence are the next one's, or nobody's.
  const int rows = a.packed ? min(block.rows, block.queries * a.group - block.first_row) : block.rows;
  auto* all = static_cast<T*>(a.out) + chunk * tile::kChunk;
  const int first = thread / kChunks;
  if (aligned && width >= tile::kChunk && a.group == 1) {
    T* to = row_of(a, block, all, a.out_strides, first);
#pragma unroll 4
    for (int row = first; row < rows; row += kStep) {
      *reinterpret_cast<uint4*>(to) = ptx::load_shared(from + Tile::offset(row, chunk));
      to += kStep * a.out_strides.token;
    }
    return;
  }
#pragma unroll 1
  for (int row = first; row < rows; row += kStep) {
    const uint4 x = ptx::load_shared(from + Tile::offset(row, chunk));
    T* to = row_of(a, block, all, a.out_strides, row);
    if (aligned && width >= tile::kChunk) {
      *reinterpret_cast<uint4*>(to) = x;
    } else {
      store_by_element(to, x, width);
    }
  }
}

}  // namespace dhyan::cuda::portable

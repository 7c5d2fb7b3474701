// SPDX-License-Identifier: Apache-2.0
// Which rows a block of the forward kernel has, and what its warps hold of them.
#pragma once

#include "core/sequence.hpp"
#include "cuda/portable/forward.hpp"
#include "cuda/tile/products.cuh"

namespace dhyan::cuda::portable {

// core::sequence from the arguments.
__device__ __forceinline__ core::Sequence sequence_of(const ForwardArguments& a, std::int64_t b) {
  core::Sequence s{0, a.query_length, 0, a.key_length, a.shift};
  if (a.lengths) {
    core::locate(a.query_lengths_operand, a.query_lengths, a.query_offsets_operand, a.query_offsets, b, a.query_tokens,
                 a.query_length, s.query_begin, s.query_count);
    core::locate(a.key_lengths_operand, a.key_lengths, a.key_offsets_operand, a.key_offsets, b, a.key_tokens, a.key_length,
                 s.key_begin, s.key_count);
  }
  if (a.bottom_right) s.shift += s.key_count - s.query_count;
  return s;
}

// What the threads of a block agree on.
struct ForwardBlock {
  int b, key_head, split;
  int first_row, rows;  // rows of the tile that the problem has
  core::Sequence sequence;
  int queries;  // of the sequence

  __device__ ForwardBlock(const ForwardArguments& a, int tile_rows) {
    unsigned item = blockIdx.x;
    const unsigned row_blocks = static_cast<unsigned>(a.row_blocks);
    // Under a causal mask later rows have more keys: they begin first.
    const int row_block = a.row_blocks - 1 - static_cast<int>(item % row_blocks);
    item /= row_blocks;
    const unsigned key_heads = static_cast<unsigned>(a.key_heads);
    key_head = static_cast<int>(item % key_heads);
    item /= key_heads;
    const unsigned splits = static_cast<unsigned>(a.splits);
    split = static_cast<int>(item % splits);
    b = static_cast<int>(item / splits);
    first_row = row_block * tile_rows;
    rows = min(tile_rows, a.query_length * a.group - first_row);
  }
  // Reads lengths.
  __device__ void locate(const ForwardArguments& a) {
    sequence = sequence_of(a, b);
    queries = static_cast<int>(sequence.query_count);
  }
  __device__ __forceinline__ int query(const ForwardArguments& a, int row) const {
    return a.by_group.quotient(first_row + row);
  }
  __device__ __forceinline__ int head(const ForwardArguments& a, int row) const {
    return key_head * a.group + first_row + row - query(a, row) * a.group;
  }
};

// Where row l/4 + 8 h of a warp's row tile i stands in the block's tile.
__device__ __forceinline__ int row_of_lane(int warp_row, int lane, int i, int h) {
  return warp_row + 16 * i + 8 * h + lane / 4;
}

// Of a row in the parts of splits.
__device__ __forceinline__ std::int64_t part_row(const ForwardArguments& a, const ForwardBlock& block, int row) {
  const std::int64_t heads = std::int64_t{a.key_heads} * a.group;
  return ((block.split * a.batch + block.b) * heads + block.head(a, row)) * a.query_length + block.query(a, row);
}

template <ForwardShape kShape>
using Scores = tile::Sums<kShape.row_tiles, kShape.keys_of_warp()>;
template <ForwardShape kShape>
using Outputs = tile::Sums<kShape.row_tiles, kShape.columns_of_warp()>;

}  // namespace dhyan::cuda::portable

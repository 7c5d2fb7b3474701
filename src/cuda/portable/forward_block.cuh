// SPDX-License-Identifier: Apache-2.0
// Which rows a block of the forward kernel has, and what its warps hold of them.
#pragma once

#include "core/sequence.hpp"
#include "cuda/portable/forward.hpp"
#include "cuda/tile/products.cuh"

namespace dhyan::cuda::portable {

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
    const unsigned key_heads = static_cast<unsigned>(a.p.key_heads);
    key_head = static_cast<int>(item % key_heads);
    item /= key_heads;
    const unsigned splits = static_cast<unsigned>(a.splits);
    split = static_cast<int>(item % splits);
    b = static_cast<int>(item / splits);
    first_row = row_block * tile_rows;
    rows = min(tile_rows, static_cast<int>(a.p.query_length) * a.group - first_row);
    sequence = core::sequence(a.p, a.buffers, b);
    queries = static_cast<int>(sequence.query_count);
  }
  __device__ __forceinline__ int query(const ForwardArguments& a, int row) const {
    return a.group == 1 ? first_row + row : (first_row + row) / a.group;
  }
  __device__ __forceinline__ int head(const ForwardArguments& a, int row) const {
    return a.group == 1 ? key_head : key_head * a.group + (first_row + row) % a.group;
  }
};

// Where row l/4 + 8 h of a warp's row tile i stands in the block's tile.
__device__ __forceinline__ int row_of_lane(int warp_row, int lane, int i, int h) {
  return warp_row + 16 * i + 8 * h + lane / 4;
}

template <ForwardShape kShape>
using Scores = tile::Sums<kShape.row_tiles, kShape.keys_of_warp()>;
template <ForwardShape kShape>
using Outputs = tile::Sums<kShape.row_tiles, kShape.columns_of_warp()>;

}  // namespace dhyan::cuda::portable

// SPDX-License-Identifier: Apache-2.0
// The portable forward kernel: which tiles there are, and what one launch is told. forward.md says why.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>

#include "core/problem.hpp"

namespace dhyan::cuda::portable {

// How a block is laid out: a row of the table of tiles.
struct ForwardShape {
  int head_dim;      // the class: elements of a row in shared memory
  int row_tiles;     // 16-row tiles that a warp holds
  int row_warps;     // side by side along the rows,
  int key_warps;     // along a tile's keys,
  int column_warps;  // and along the columns of the output, each with all scores of its rows
  int keys;          // of a tile
  int stages;        // tiles of keys and values in shared memory; 1: the next keys come while the values are multiplied
  int blocks;        // on a multiprocessor at once that registers are left for
  int element_bytes = 2;

  constexpr int rows() const { return 16 * row_tiles * row_warps; }
  constexpr int warps() const { return row_warps * key_warps * column_warps; }
  constexpr int threads() const { return 32 * warps(); }
  constexpr int keys_of_warp() const { return keys / key_warps; }
  constexpr int columns_of_warp() const { return head_dim / column_warps; }
  constexpr int query_bytes() const { return rows() * head_dim * element_bytes; }
  constexpr int tile_bytes() const { return keys * head_dim * element_bytes; }
  // What the warps along the keys exchange in the end lies over keys and values.
  constexpr int shared_bytes() const { return query_bytes() + 2 * stages * tile_bytes(); }
  // Sums and scores in registers, per thread.
  constexpr int accumulators() const { return row_tiles * (keys_of_warp() + columns_of_warp()) / 2; }
};

// Shared memory that one block may have on every device from compute capability 8.0 on.
inline constexpr int kLeastShared = 99 * 1024;

// Tiles by class of head dimension and by use.
enum class ForwardUse { large, small, few_rows };
inline constexpr int kForwardUses = 3;

inline constexpr std::array<int, 4> kHeadDims = {64, 128, 256, 512};
inline constexpr ForwardShape kForwardShapes[kHeadDims.size()][kForwardUses] = {
    {{64, 2, 4, 1, 1, 64, 2, 2}, {64, 1, 4, 1, 1, 64, 2, 3}, {64, 1, 1, 4, 1, 64, 3, 3}},
    {{128, 2, 4, 1, 1, 64, 2, 2}, {128, 1, 4, 1, 1, 64, 1, 2}, {128, 1, 1, 4, 1, 64, 2, 3}},
    {{256, 1, 4, 1, 1, 64, 1, 1}, {256, 1, 4, 1, 1, 64, 1, 1}, {256, 1, 1, 2, 1, 32, 2, 2}},
    {{512, 1, 2, 1, 2, 32, 1, 1}, {512, 1, 2, 1, 2, 32, 1, 1}, {512, 1, 2, 1, 2, 32, 1, 1}},
};
constexpr bool sound(const ForwardShape& s) {
  return s.accumulators() <= 200 && s.keys_of_warp() % 16 == 0 && s.columns_of_warp() % 64 == 0 &&
         s.key_warps * s.rows() * (s.head_dim + 2) * 4 <= (s.key_warps == 1 ? 1 << 30 : 2 * s.stages * s.tile_bytes());
}
constexpr bool all_sound() {
  for (std::size_t i = 0; i < kHeadDims.size(); ++i) {
    for (int use = 0; use < kForwardUses; ++use) {
      const ForwardShape& s = kForwardShapes[i][use];
      if (!sound(s) || s.head_dim != kHeadDims[i]) return false;
      if (use > 0 && s.shared_bytes() > kLeastShared) return false;  // there are always tiles that fit
    }
  }
  return true;
}
static_assert(all_sound());

// f32: the general kernel only, warps along the keys with tiles of their own.
inline constexpr std::array<int, 3> kFloatHeadDims = {64, 128, 256};
inline constexpr ForwardShape kFloatShapes[kFloatHeadDims.size()][2] = {
    {{64, 1, 4, 2, 1, 128, 1, 1, 4}, {64, 1, 4, 2, 1, 128, 1, 1, 4}},
    {{128, 1, 4, 2, 1, 64, 1, 1, 4}, {128, 1, 4, 2, 1, 64, 1, 1, 4}},
    {{256, 1, 4, 2, 1, 64, 1, 1, 4}, {256, 1, 2, 1, 1, 32, 1, 1, 4}},
};

struct ForwardArguments {
  core::Problem p;
  core::Buffers buffers;
  int group;        // query heads of a key head
  int row_blocks;   // tiles of rows, of the group's heads side by side for each query
  int splits;       // along the keys
  float early;      // power of two that queries are multiplied by
  float factor;     // the rest of the scale; plain: times log2 e
  float kept;       // 1 / (1 - dropout probability)
  bool plain;       // masks by position are all that happens to a score
  bool aligned;     // rows of query, key, value and out lie at multiples of 16 bytes
  float* part_out;  // splits > 1: [split][b][n][t][value_head_dim], normalised
  float* part_lse;  // [split][b][n][t]
};

using ForwardKernel = void (*)(ForwardArguments);

// NULL: a kernel that does more does it too.
struct ForwardKernels {
  ForwardKernel plain[kForwardUses], general[kForwardUses];
};

extern const ForwardKernels forward_f16_64, forward_f16_128, forward_f16_256, forward_f16_512;
extern const ForwardKernels forward_bf16_64, forward_bf16_128, forward_bf16_256, forward_bf16_512;

// NULL: tiles that the others leave no use for.
struct FloatForwardKernels {
  ForwardKernel f32[2], tf32[2];
};

extern const FloatForwardKernels forward_f32_64, forward_f32_128, forward_f32_256;

}  // namespace dhyan::cuda::portable

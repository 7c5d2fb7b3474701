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
  // What the warps along the keys exchange in the end lies over it all.
  constexpr int shared_bytes() const { return query_bytes() + 2 * stages * tile_bytes(); }
  // Sums and scores in registers, per thread.
  constexpr int accumulators() const { return row_tiles * (keys_of_warp() + columns_of_warp()) / 2; }
};

// Shared memory that one block may have on every device from compute capability 8.0 on.
inline constexpr int kLeastShared = 99 * 1024;

// Tiles by class of head dimension and by use.
enum class ForwardUse {
  small,      // whatever the others are not for
  large,      // grids that fill a device
  few_keys,   // small grids, where two warps along the keys halve the way through them
  few_rows,   // up to 16, of one-token queries mostly: keys are read as fast as memory gives them
  many_keys,  // few rows on devices with shared memory for larger tiles
};
inline constexpr int kForwardUses = 5;

inline constexpr std::array<int, 4> kHeadDims = {64, 128, 256, 512};
inline constexpr ForwardShape kForwardShapes[kHeadDims.size()][kForwardUses] = {
    {{64, 1, 4, 1, 1, 64, 2, 3}, {64, 2, 4, 1, 1, 64, 2, 2}, {64, 1, 4, 2, 1, 128, 2, 1}, {64, 1, 1, 4, 1, 64, 3, 3}, {}},
    {{128, 1, 4, 1, 1, 64, 1, 2},
     {128, 2, 4, 1, 1, 48, 2, 2},
     {128, 1, 4, 2, 1, 128, 1, 1},
     {128, 1, 1, 4, 1, 64, 2, 3},
     {128, 1, 1, 4, 1, 128, 2, 1}},
    {{256, 1, 4, 1, 1, 64, 1, 1}, {}, {}, {256, 1, 1, 2, 1, 32, 2, 2}, {}},
    {{512, 1, 2, 1, 2, 32, 1, 1}, {}, {}, {}, {}},
};
// Keys, more than the first number and up to the second, for which `few_keys` was faster (forward.md).
inline constexpr int kFewKeys[kHeadDims.size()][2] = {{64, 384}, {128, 768}, {}, {}};

constexpr bool sound(const ForwardShape& s) {
  return s.accumulators() <= 200 && s.keys_of_warp() % 16 == 0 && s.columns_of_warp() % 64 == 0 &&
         (s.key_warps == 1 || s.key_warps * s.rows() * (s.head_dim + 2) * 4 <= s.shared_bytes());
}
constexpr bool all_sound() {
  for (std::size_t i = 0; i < kHeadDims.size(); ++i) {
    for (const ForwardShape& s : kForwardShapes[i]) {
      if (s.head_dim != 0 && (s.head_dim != kHeadDims[i] || !sound(s))) return false;
    }
    if (kForwardShapes[i][0].shared_bytes() > kLeastShared) return false;  // there are always tiles that fit
  }
  return true;
}
static_assert(all_sound());

// f32: the general kernel only, warps along the keys with tiles of their own. Few rows are for small grids, and under a causal
// mask for an even load; where shared memory is small, one of the two does it all.
enum class FloatForwardUse { many_rows, few_rows };
inline constexpr int kFloatForwardUses = 2;
inline constexpr std::array<int, 3> kFloatHeadDims = {64, 128, 256};
inline constexpr ForwardShape kFloatShapes[kFloatHeadDims.size()][kFloatForwardUses] = {
    {{64, 1, 4, 2, 1, 128, 1, 1, 4}, {64, 1, 2, 4, 1, 256, 1, 1, 4}},
    {{128, 1, 4, 2, 1, 64, 1, 1, 4}, {128, 1, 2, 4, 1, 128, 1, 1, 4}},
    {{256, 1, 4, 2, 1, 64, 1, 1, 4}, {256, 1, 2, 1, 1, 32, 1, 1, 4}},
};

// Division by a number that the host knows, of numbers below 2^31 (Granlund and Montgomery, "Division by invariant integers
// using multiplication", 1994).
struct Divisor {
  std::uint32_t factor = (1u << 31) + 1;  // by 1
  int shift = 0;

  Divisor() = default;
  explicit Divisor(std::uint32_t divisor) {
    while ((std::uint64_t{1} << shift) < divisor) ++shift;
    factor = static_cast<std::uint32_t>((std::uint64_t{1} << (31 + shift)) / divisor + 1);
  }
#ifdef __CUDACC__
  __device__ __forceinline__ int quotient(int x) const {
    return static_cast<int>(__umulhi(static_cast<unsigned>(x) * 2, factor) >> shift);
  }
#endif
};

// In elements.
struct RowStrides {
  std::int64_t batch, token, head;  // packed: batch 0
};

// What every block reads comes first and is little: a small problem waits for each line of it.
struct ForwardArguments {
  const void *query, *key, *value;
  void* out;
  float* lse;         // may be NULL
  const float* sink;  // likewise
  RowStrides query_strides, key_strides, value_strides, out_strides, lse_strides;
  int row_blocks;  // tiles of rows, of the group's heads side by side for each query
  int key_heads, group;
  Divisor by_group;
  int splits;  // along the keys
  int query_length, key_length;
  int head_dim, value_head_dim;
  std::int64_t shift;                      // positions of queries less those of keys, bottom-right alignment aside
  std::int64_t window_left, window_right;  // -1: unlimited; causal: 0 to the right
  float early;                             // power of two that queries are multiplied by
  float factor;                            // the rest of the scale; plain: times log2 e
  float kept;                              // 1 / (1 - dropout probability)
  bool plain;                              // masks by position are all that happens to a score
  bool aligned;                            // rows of query, key, value and out lie at multiples of 16 bytes
  bool bottom_right, packed;
  bool lengths;     // some are given: the operands at the end count
  float* part_out;  // splits > 1: [split][b][n][t][value_head_dim], normalised
  float* part_lse;  // [split][b][n][t]
  std::int64_t batch, sink_stride;
  dhyan_dtype dtype;  // of out

  const void *query_lengths, *key_lengths, *query_offsets, *key_offsets;
  core::Operand query_lengths_operand, key_lengths_operand, query_offsets_operand, key_offsets_operand;
  std::int64_t query_tokens, key_tokens;
};

// All that a problem says but `row_blocks`, `aligned` and splits; `bind` adds what a run brings.
ForwardArguments forward_arguments(const core::Problem& p);
void bind(ForwardArguments& arguments, const core::Problem& p, const core::Buffers& buffers);

using PlainKernel = void (*)(ForwardArguments);
using GeneralKernel = void (*)(ForwardArguments, core::Problem, core::Buffers);

// NULL: there is no such shape, or others leave no use for it.
struct ForwardKernels {
  PlainKernel plain[kForwardUses];
  GeneralKernel general[kForwardUses];
};

extern const ForwardKernels forward_f16_64, forward_f16_128, forward_f16_256, forward_f16_512;
extern const ForwardKernels forward_bf16_64, forward_bf16_128, forward_bf16_256, forward_bf16_512;

struct FloatForwardKernels {
  GeneralKernel f32[kFloatForwardUses], tf32[kFloatForwardUses];
};

extern const FloatForwardKernels forward_f32_64, forward_f32_128, forward_f32_256;

}  // namespace dhyan::cuda::portable

// SPDX-License-Identifier: Apache-2.0
// The portable backward kernels: which tiles there are, and what one launch is told. backward.md says why.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>

#include "core/problem.hpp"

namespace dhyan::cuda::portable {

// How a block of the kernel that goes by keys is laid out: a row of its table of tiles.
struct KeyShape {
  int head_dim;         // the class: elements of a row in shared memory
  int row_tiles;        // 16-key tiles that a warp holds
  int key_warps;        // side by side along the keys,
  int column_warps;     // and along the columns of the gradients; more than 1: each has scores of its part of the queries
  int queries;          // of a tile
  int slice;            // queries whose scores a warp holds at once
  int query_row_tiles;  // 16-query tiles that a warp holds of the gradients of queries
  int stages;           // tiles of queries and output gradients in shared memory
  int blocks;           // on a multiprocessor at once that registers are left for

  constexpr int keys() const { return 16 * row_tiles * key_warps; }
  constexpr int warps() const { return key_warps * column_warps; }
  constexpr int threads() const { return 32 * warps(); }
  constexpr int columns_of_warp() const { return head_dim / column_warps; }
  constexpr int queries_of_warp() const { return queries / column_warps; }
  // Warps side by side along the queries when those's gradients are computed, and what is left for each of the columns.
  constexpr int query_warps() const { return queries / (16 * query_row_tiles); }
  constexpr int query_columns() const { return head_dim * query_warps() / warps(); }
  constexpr int key_bytes() const { return keys() * head_dim * 2; }
  constexpr int query_bytes() const { return queries * head_dim * 2; }
  constexpr int score_columns() const { return queries < 64 ? 64 : queries; }  // a shared row of scores
  constexpr int score_bytes() const { return keys() * score_columns() * 2; }
  constexpr int row_bytes() const { return queries * 2 * 4; }  // lse and delta
  constexpr int stage_bytes() const { return 2 * query_bytes() + row_bytes(); }
  constexpr int shared_bytes() const {
    return 2 * key_bytes() + (column_warps > 1 ? 2 : 1) * score_bytes() + stages * stage_bytes();
  }
  // Sums and scores in registers, per thread.
  constexpr int accumulators() const { return row_tiles * (columns_of_warp() + slice); }
};

// Of the kernels that go by queries or by tiles of a bias: 4 warps of 16 queries.
struct QueryShape {
  int head_dim;
  int keys;  // of a tile

  static constexpr int queries() { return 64; }
  static constexpr int threads() { return 128; }
  constexpr int query_bytes() const { return queries() * head_dim * 2; }
  constexpr int key_bytes() const { return keys * head_dim * 2; }
  constexpr int shared_bytes() const { return 2 * query_bytes() + 2 * key_bytes(); }
};

inline constexpr std::array<int, 3> kBackwardHeadDims = {64, 128, 256};

// Tiles by class of head dimension and by use: `large` where shared memory lets them and no option works on single scores.
enum class BackwardUse { large, small };
inline constexpr int kBackwardUses = 2;
inline constexpr KeyShape kKeyShapes[kBackwardHeadDims.size()][kBackwardUses] = {
    {{64, 2, 4, 1, 64, 32, 2, 2, 2}, {64, 2, 4, 1, 64, 16, 2, 1, 1}},
    {{128, 2, 4, 2, 64, 32, 2, 2, 1}, {128, 1, 4, 1, 64, 16, 2, 1, 1}},
    {{256, 2, 2, 4, 64, 16, 2, 2, 1}, {256, 1, 2, 2, 32, 16, 1, 1, 1}},
};
inline constexpr QueryShape kQueryShapes[kBackwardHeadDims.size()] = {{64, 64}, {128, 64}, {256, 32}};

// Of the f32 kernel: 16 rows a warp, the other side's rows in turn.
struct FloatBackwardShape {
  int head_dim;
  int warps;
  int stream;  // rows of the other side at once
  int blocks;  // on a multiprocessor at once that registers are left for

  constexpr int rows() const { return 16 * warps; }
  constexpr int threads() const { return 32 * warps; }
  constexpr int shared_bytes() const { return (2 * rows() + stream) * head_dim * 4; }
};
inline constexpr FloatBackwardShape kFloatBackwardShapes[kBackwardHeadDims.size()] = {
    {64, 4, 32, 3}, {128, 4, 32, 2}, {256, 2, 32, 2}};

// Shared memory that one block may have on every device from compute capability 8.0 on.
inline constexpr int kLeastBackwardShared = 99 * 1024;

constexpr bool sound(const KeyShape& s) {
  return s.accumulators() <= 200 && s.queries_of_warp() % s.slice == 0 && s.slice % 16 == 0 && s.columns_of_warp() % 16 == 0 &&
         s.query_warps() * 16 * s.query_row_tiles == s.queries && s.query_columns() % 16 == 0 &&
         s.query_columns() * s.warps() == s.head_dim * s.query_warps() && 2 * s.queries <= s.threads();
}
constexpr bool all_backward_sound() {
  for (std::size_t i = 0; i < kBackwardHeadDims.size(); ++i) {
    for (const KeyShape& s : kKeyShapes[i]) {
      if (!sound(s) || s.head_dim != kBackwardHeadDims[i]) return false;
    }
    const QueryShape& q = kQueryShapes[i];
    if (q.head_dim != kBackwardHeadDims[i] || q.shared_bytes() > kLeastBackwardShared) return false;
    const FloatBackwardShape& f = kFloatBackwardShapes[i];
    if (f.head_dim != kBackwardHeadDims[i] || f.stream % 32 != 0 || f.shared_bytes() > kLeastBackwardShared) return false;
    if (kKeyShapes[i][static_cast<int>(BackwardUse::small)].shared_bytes() > kLeastBackwardShared) return false;
  }
  return true;
}
static_assert(all_backward_sound());

// What one launch of the f32 kernel computes.
enum class Gradient { query, key, value };

struct BackwardArguments {
  core::Problem p;
  core::Buffers buffers;
  int group;          // query heads of a key head
  int key_tiles;      // of the kernel by keys
  int query_tiles;    // of the kernel by queries
  int lanes;          // a power of 2 that share a row in the kernels before and after
  float early;        // power of two that keys (queries, where they stay) are multiplied by
  float factor;       // the rest of the scale; plain: times log2 e
  bool plain;         // masks by position are all that happens to a score
  float scale;        // of gradients of queries that stay and of keys
  float sums_scale;   // of gradients of queries that are summed in memory
  float kept;         // 1 / (1 - dropout probability)
  bool aligned;       // rows of query, key, value and grad_out lie at multiples of 16 bytes
  Gradient gradient;  // f32
  // A row for each query: [b][n][t], a head's rows padded to groups of 8; packed: [n][token].
  std::int64_t rows_of_head;
  int row_blocks;     // of the kernels before and after, per head
  float* lse;         // to powers of 2; +inf where nothing is seen
  float* delta;       // sum of grad_out * out, less grad_lse
  float* query_sums;  // gradients of queries (backward_sums.cuh); NULL: the kernel by keys leaves them out
  int sums_width;     // of a row: the class of head dimension
  // Gradients of a bias, by tiles.
  int bias_query_tiles, bias_key_tiles;  // of its own shape
  int bias_terms, bias_chunks;           // tiles that are added up in one, and how they are cut
  float* bias_parts;                     // [chunk][element]; NULL with one chunk

  DHYAN_HOST_DEVICE std::int64_t first_row(std::int64_t b, std::int64_t n, std::int64_t begin) const {
    return p.packed ? n * rows_of_head + begin : (b * p.query_heads + n) * rows_of_head;
  }
};

using BackwardKernel = void (*)(BackwardArguments);

// plain_keys has large tiles, keys small ones and does all that plain_keys does.
struct BackwardKernels {
  BackwardKernel plain_keys, keys, plain_queries, queries, bias;
};

extern const BackwardKernels backward_f16_64, backward_f16_128, backward_f16_256;
extern const BackwardKernels backward_bf16_64, backward_bf16_128, backward_bf16_256;

struct FloatBackwardKernels {
  BackwardKernel f32, tf32;
};

extern const FloatBackwardKernels backward_f32_64, backward_f32_128, backward_f32_256;

// Kernels around those. Rows of lse, delta and sums, the last cleared; a blank result where packing leaves gaps.
void prepare_backward(const BackwardArguments& a, cudaStream_t stream);
// Gradients of queries from their sums.
void convert_sums(const BackwardArguments& a, cudaStream_t stream);
void sum_sink(const BackwardArguments& a, cudaStream_t stream);
void sum_bias_parts(const BackwardArguments& a, cudaStream_t stream);
void blank_gradients(const BackwardArguments& a, cudaStream_t stream);
void load_backward_steps(const core::Problem& p);

}  // namespace dhyan::cuda::portable

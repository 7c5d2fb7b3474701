// SPDX-License-Identifier: Apache-2.0
// Backward by queries, with scores computed once more: gradients of queries that need no sums in memory, the same bits in every
// run; and gradients of a bias, by tiles of its own shape. One warp has 16 queries.
#pragma once

#include "cuda/portable/backward_tile.cuh"

namespace dhyan::cuda::portable {

// A warp's rows: what is known of those of a lane, l/4 and l/4 + 8.
struct LaneRows {
  int t[2], begin[2], end[2];  // keys that the row sees
  float lse[2], delta[2];

  __device__ LaneRows(const BackwardArguments& a, const core::Sequence& sequence, const tile::Visible& visible, int b, int head,
                      int first, int lane) {
    const std::int64_t base = a.first_row(b, head, sequence.query_begin);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      t[h] = first + 8 * h + lane / 4;
      const bool held = t[h] < sequence.query_count;
      begin[h] = visible.begin(t[h]);
      end[h] = held ? visible.end(t[h]) : 0;
      lse[h] = held ? a.lse[base + t[h]] : 0;
      delta[h] = held ? a.delta[base + t[h]] : 0;
    }
  }
};

template <int kKeys>
using RowScores = tile::Sums<1, kKeys>;

// Scores and gradients of their weights become what `take` makes of each element's Weight.
template <int kKeys, class Take>
__device__ __forceinline__ void weigh_rows(const RowScores<kKeys>& scores, const RowScores<kKeys>& gradients,
                                           const BackwardArguments& a, const core::Sequence& sequence, int b, int head,
                                           const LaneRows& rows, int first_key, int lane, const Take& take) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const tile::ScoreRow row(a.p, a.buffers, b, head, rows.t[h], sequence.shift);
#pragma unroll
    for (int j = 0; j < kKeys / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int s = first_key + 8 * j + lane % 4 * 2 + e;
        Weight w{};
        if (s >= rows.begin[h] && s < rows.end[h]) {
          w = weight(a, row, rows.lse[h], rows.delta[h], scores[0][j][2 * h + e], gradients[0][j][2 * h + e], s);
        }
        take(j, 2 * h + e, w);
      }
    }
  }
}

// The same where masks by position are all there is: gradients of scores in place of those of weights.
template <int kKeys>
__device__ __forceinline__ void weigh_rows_plain(const RowScores<kKeys>& scores, RowScores<kKeys>& gradients, float factor,
                                                 bool whole, const LaneRows& rows, int first_key, int lane) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int begin = rows.begin[h] - first_key - lane % 4 * 2;
    const int end = rows.end[h] - first_key - lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < kKeys / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float x = ptx::exp2(scores[0][j][2 * h + e] * factor - rows.lse[h]);
        if (!whole && (8 * j + e < begin || 8 * j + e >= end)) x = 0;
        gradients[0][j][2 * h + e] = x * (gradients[0][j][2 * h + e] - rows.delta[h]);
      }
    }
  }
}

// Shared memory of both kernels: queries, output gradients, keys, values.
template <QueryShape kShape>
struct QueryTiles {
  std::uint32_t query, grad_out, key, value;
  __device__ explicit QueryTiles(const void* shared)
      : query(ptx::shared_address(shared)),
        grad_out(query + kShape.query_bytes()),
        key(grad_out + kShape.query_bytes()),
        value(key + kShape.key_bytes()) {}
};

template <class T, QueryShape kShape>
__device__ __forceinline__ void load_query_side(const QueryTiles<kShape>& tiles, const BackwardArguments& a,
                                                const core::Sequence& sequence, int b, int head, int first, int thread) {
  const int count = static_cast<int>(sequence.query_count) - first;
  const std::int64_t token = sequence.query_begin + first;
  load<kShape.queries(), kShape.head_dim, kShape.threads()>(
      tiles.query, rows_from<T>(a.p.query, a.buffers.query, b, token, head, count, a.p.head_dim), a.aligned, thread);
  load<kShape.queries(), kShape.head_dim, kShape.threads()>(
      tiles.grad_out, rows_from<T>(a.p.grad_out, a.buffers.grad_out, b, token, head, count, a.p.value_head_dim), a.aligned,
      thread);
}

template <class T, QueryShape kShape>
__device__ __forceinline__ void load_key_side(const QueryTiles<kShape>& tiles, const BackwardArguments& a,
                                              const core::Sequence& sequence, int b, int head, int first, int thread) {
  const int count = static_cast<int>(sequence.key_count) - first;
  const std::int64_t token = sequence.key_begin + first;
  const int key_head = head / a.group;
  load<kShape.keys, kShape.head_dim, kShape.threads()>(
      tiles.key, rows_from<T>(a.p.key, a.buffers.key, b, token, key_head, count, a.p.head_dim), a.aligned, thread);
  load<kShape.keys, kShape.head_dim, kShape.threads()>(
      tiles.value, rows_from<T>(a.p.value, a.buffers.value, b, token, key_head, count, a.p.value_head_dim), a.aligned, thread);
}

// Keys whose scores a warp holds at once.
constexpr int row_slice(int head_dim, bool general) { return general || head_dim > 128 ? 16 : 32; }

template <class T, int kClass, bool kGeneral>
__global__ void __launch_bounds__(QueryShape::threads()) backward_queries(const __grid_constant__ BackwardArguments a) {
  constexpr QueryShape kShape = kQueryShapes[kClass];
  constexpr int kHead = kShape.head_dim;
  constexpr int kRowSlice = row_slice(kHead, kGeneral);
  using Tile = tile::SharedTile<kHead>;
  extern __shared__ __align__(1024) unsigned char shared[];
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int warp_row = thread / 32 * 16;
  const unsigned query_tiles = static_cast<unsigned>(a.query_tiles);
  const unsigned heads = static_cast<unsigned>(a.p.query_heads);
  const int first = static_cast<int>(query_tiles - 1 - blockIdx.x % query_tiles) * kShape.queries();
  const int head = static_cast<int>(blockIdx.x / query_tiles % heads);
  const int b = static_cast<int>(blockIdx.x / query_tiles / heads);
  const core::Sequence sequence = core::sequence(a.p, a.buffers, b);
  const int held = static_cast<int>(sequence.query_count) - first;
  if (a.p.packed && held <= 0) return;  // rows of the next sequence, or of none
  const tile::Visible visible(a.p, sequence);
  const QueryTiles<kShape> tiles(shared);
  const LaneRows rows(a, sequence, visible, b, head, first + warp_row, lane);
  const int begin = visible.begin(first) / kShape.keys * kShape.keys;
  const int last = first + min(held, kShape.queries()) - 1;
  const int end = held > 0 ? visible.end(last) : 0;

  tile::Sums<1, kHead> grad_query;
  tile::clear<1, kHead>(grad_query);
  if (begin < end) load_query_side<T, kShape>(tiles, a, sequence, b, head, first, thread);
  const std::uint32_t left = warp_row * Tile::kPitch + tile::rows_first<kHead>(lane);
  for (int key = begin; key < end; key += kShape.keys) {
    load_key_side<T, kShape>(tiles, a, sequence, b, head, key, thread);
    ptx::cp_async_commit();
    ptx::cp_async_wait<0>();
    if (a.early != 1 && key == begin) scale_own<T, kShape.queries(), kHead, kShape.threads()>(tiles.query, a.early, thread);
    __syncthreads();
    const bool whole = key >= visible.begin(last) && key + kShape.keys <= visible.end(first);
#pragma unroll
    for (int slice = 0; slice < kShape.keys; slice += kRowSlice) {
      RowScores<kRowSlice> scores, gradients;
      tile::clear<1, kRowSlice>(scores);
      tile::clear<1, kRowSlice>(gradients);
      const std::uint32_t right = slice * Tile::kPitch + tile::columns_first<kHead>(lane);
      tile::multiply_rows<T, kHead, 1, kRowSlice>(scores, tiles.query + left, tiles.key + right);
      tile::multiply_rows<T, kHead, 1, kRowSlice>(gradients, tiles.grad_out + left, tiles.value + right);
      if constexpr (kGeneral) {
        weigh_rows<kRowSlice>(scores, gradients, a, sequence, b, head, rows, key + slice, lane,
                              [&](int j, int e, const Weight& w) { gradients[0][j][e] = w.score; });
      } else {
        weigh_rows_plain<kRowSlice>(scores, gradients, a.factor, whole, rows, key + slice, lane);
      }
      Left<1, kRowSlice> weights;
      round_to<T, 1, kRowSlice>(weights, gradients);
      multiply_left<T, kHead, 1, kRowSlice, kHead>(grad_query, weights,
                                                   tiles.key + slice * Tile::kPitch + tile::rows_first<kHead>(lane));
    }
    __syncthreads();
  }

  stage_sums<T, kHead, 1, kHead>(tiles.grad_out, grad_query, a.scale, warp_row, 0, lane);
  __syncthreads();
  const int count = a.p.packed ? held : static_cast<int>(a.p.query_length) - first;
  const auto to =
      rows_from<T>(a.p.grad_query, a.buffers.grad_query, b, sequence.query_begin + first, head, count, a.p.head_dim);
  store_rows<T, kShape.queries(), kHead, kShape.threads()>(tiles.grad_out, const_cast<T*>(to.first), to.stride, count, to.width,
                                                           a.p.grad_query.alignment >= tile::kChunkBytes, thread);
}

// One block: a tile of a bias's own shape, or one chunk of the terms that are added up in it. A dimension that broadcasts is
// one tile of the bias and all tiles of the scores.
template <class T, int kClass>
__global__ void __launch_bounds__(QueryShape::threads()) backward_bias(const __grid_constant__ BackwardArguments a) {
  constexpr QueryShape kShape = kQueryShapes[kClass];
  constexpr int kHead = kShape.head_dim;
  constexpr int kKeys = kShape.keys;
  constexpr int kQueries = kShape.queries();
  constexpr int kRowSlice = row_slice(kHead, true);
  using Tile = tile::SharedTile<kHead>;
  extern __shared__ __align__(1024) unsigned char shared[];
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int warp_row = thread / 32 * 16;
  const core::Problem& p = a.p;
  const int batches = static_cast<int>(p.bias_shape[0]);
  const int heads = static_cast<int>(p.bias_shape[1]);
  const bool one_row = p.bias_shape[2] == 1;
  const bool one_column = p.bias_shape[3] == 1;
  unsigned item = blockIdx.x;
  const auto next = [&](int size) {
    const int i = static_cast<int>(item % static_cast<unsigned>(size));
    item /= static_cast<unsigned>(size);
    return i;
  };
  const int key_tile = next(a.bias_key_tiles);
  const int query_tile = next(a.bias_query_tiles);
  const int own_head = next(heads);
  const int own_batch = next(batches);
  const int chunk = static_cast<int>(item);
  const QueryTiles<kShape> tiles(shared);
  const std::uint32_t left = warp_row * Tile::kPitch + tile::rows_first<kHead>(lane);
  const int all_query_tiles = one_row ? static_cast<int>((p.query_length + kQueries - 1) / kQueries) : 1;
  const int all_key_tiles = one_column ? static_cast<int>((p.key_length + kKeys - 1) / kKeys) : 1;
  const int all_heads = heads == 1 ? static_cast<int>(p.query_heads) : 1;

  RowScores<kKeys> sums;
  tile::clear<1, kKeys>(sums);
  const int each = (a.bias_terms + a.bias_chunks - 1) / a.bias_chunks;
  for (int term = chunk * each; term < min((chunk + 1) * each, a.bias_terms); ++term) {
    int rest = term;
    const int first_key = (key_tile + rest % all_key_tiles) * kKeys;
    rest /= all_key_tiles;
    const int first = (query_tile + rest % all_query_tiles) * kQueries;
    rest /= all_query_tiles;
    const int head = own_head + rest % all_heads;
    const int b = own_batch + rest / all_heads;
    const core::Sequence sequence = core::sequence(p, a.buffers, b);
    const int last = min(first + kQueries, static_cast<int>(sequence.query_count)) - 1;
    const tile::Visible visible(p, sequence);
    if (last < first || first_key >= visible.end(last) || first_key + kKeys <= visible.begin(first)) continue;
    load_query_side<T, kShape>(tiles, a, sequence, b, head, first, thread);
    load_key_side<T, kShape>(tiles, a, sequence, b, head, first_key, thread);
    ptx::cp_async_commit();
    ptx::cp_async_wait<0>();
    if (a.early != 1) scale_own<T, kQueries, kHead, kShape.threads()>(tiles.query, a.early, thread);
    __syncthreads();
    const LaneRows rows(a, sequence, visible, b, head, first + warp_row, lane);
#pragma unroll
    for (int slice = 0; slice < kKeys; slice += kRowSlice) {
      RowScores<kRowSlice> scores, gradients;
      tile::clear<1, kRowSlice>(scores);
      tile::clear<1, kRowSlice>(gradients);
      const std::uint32_t right = slice * Tile::kPitch + tile::columns_first<kHead>(lane);
      tile::multiply_rows<T, kHead, 1, kRowSlice>(scores, tiles.query + left, tiles.key + right);
      tile::multiply_rows<T, kHead, 1, kRowSlice>(gradients, tiles.grad_out + left, tiles.value + right);
      weigh_rows<kRowSlice>(scores, gradients, a, sequence, b, head, rows, first_key + slice, lane,
                            [&](int j, int e, const Weight& w) { sums[0][slice / 8 + j][e] += w.logit; });
    }
    __syncthreads();
  }

  // By way of shared memory: sums of a dimension that broadcasts, in a fixed order, and rows of neighbours.
  float* const square = reinterpret_cast<float*>(shared);
#pragma unroll
  for (int j = 0; j < kKeys / 8; ++j) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      square[(warp_row + lane / 4 + e / 2 * 8) * kKeys + 8 * j + lane % 4 * 2 + e % 2] = sums[0][j][e];
    }
  }
  __syncthreads();
  if (one_row) {
    for (int c = thread; c < kKeys; c += kShape.threads()) {
      float sum = 0;
      for (int r = 0; r < kQueries; ++r) sum += square[r * kKeys + c];
      square[c] = sum;  // of this thread's column
    }
    __syncthreads();
  }
  const int columns = one_column ? 1 : kKeys;
  for (int i = thread; i < (one_row ? 1 : kQueries) * columns; i += kShape.threads()) {
    const int r = i / columns;
    const int c = i % columns;
    float sum = square[r * kKeys + c];
    for (int k = 1; one_column && k < kKeys; ++k) sum += square[r * kKeys + k];
    const std::int64_t t = std::int64_t{query_tile} * kQueries + r;
    const std::int64_t s = std::int64_t{key_tile} * kKeys + c;
    if (t >= p.bias_shape[2] || s >= p.bias_shape[3]) continue;
    if (a.bias_parts) {
      const std::int64_t elements = p.bias_shape[0] * p.bias_shape[1] * p.bias_shape[2] * p.bias_shape[3];
      const std::int64_t element = ((std::int64_t{own_batch} * heads + own_head) * p.bias_shape[2] + t) * p.bias_shape[3] + s;
      a.bias_parts[chunk * elements + element] = sum;
    } else {
      const auto& strides = p.grad_bias.strides;
      tile::store_element(a.buffers.grad_bias, p.grad_bias.dtype,
                          own_batch * strides[0] + own_head * strides[1] + t * strides[2] + s * strides[3], sum);
    }
  }
}

}  // namespace dhyan::cuda::portable

// SPDX-License-Identifier: Apache-2.0
// Backward by keys. One block: a tile of keys and values of one key head against the tiles of queries, of all heads of the
// group, that see some of them. Scores are computed transposed, so that their weights are left operands as they are.
#pragma once

#include "cuda/portable/backward_tile.cuh"
#include "cuda/ptx/red.cuh"

namespace dhyan::cuda::portable {

// What the threads of a block agree on.
struct KeyBlock {
  int b, key_head, first_key;
  core::Sequence sequence;
  int begin, end;  // queries that see some of the keys

  __device__ KeyBlock(const BackwardArguments& a, int keys) {
    const unsigned tiles = static_cast<unsigned>(a.key_tiles);
    const unsigned heads = static_cast<unsigned>(a.p.key_heads);
    first_key = static_cast<int>(blockIdx.x % tiles) * keys;  // under a causal mask the first have most queries
    key_head = static_cast<int>(blockIdx.x / tiles % heads);
    b = static_cast<int>(blockIdx.x / tiles / heads);
    sequence = core::sequence(a.p, a.buffers, b);
    const core::KeyRange queries =
        core::visible_queries(a.p, sequence, first_key, std::min<std::int64_t>(first_key + keys, sequence.key_count));
    begin = static_cast<int>(queries.begin);
    end = static_cast<int>(queries.end);
  }
};

// Scores of one slice and gradients of their weights become weights and gradients of scores: rows keys, columns queries.
template <KeyShape kShape>
using Slice = tile::Sums<kShape.row_tiles, kShape.slice>;

// Whether no query of a slice sees any of a warp's keys.
template <KeyShape kShape>
__device__ __forceinline__ bool hidden(const tile::Visible& visible, int first_key, int first_query) {
  return visible.end(first_query + kShape.slice - 1) <= first_key ||
         visible.begin(first_query) >= first_key + 16 * kShape.row_tiles;
}

// lse and delta are addresses of the lane's first column in shared memory; the key and the query those of its first element.
template <KeyShape kShape>
__device__ __forceinline__ void weigh(Slice<kShape>& weights, Slice<kShape>& gradients, const float* lse, const float* delta,
                                      float factor, bool whole, const tile::Visible& visible, int key, int query) {
#pragma unroll
  for (int j = 0; j < kShape.slice / 8; ++j) {
    const float2 l = *reinterpret_cast<const float2*>(lse + 8 * j);
    const float2 d = *reinterpret_cast<const float2*>(delta + 8 * j);
#pragma unroll
    for (int i = 0; i < kShape.row_tiles; ++i) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float& first = weights[i][j][2 * h];
        float& second = weights[i][j][2 * h + 1];
        first = ptx::exp2(first * factor - l.x);
        second = ptx::exp2(second * factor - l.y);
        if (!whole) {
          const int s = key + 16 * i + 8 * h;
          const int least = s - visible.right + 1 - query;  // queries that see the key
          const int most = s < visible.keys ? s - visible.left - query : -0x7fffffff;
          if (8 * j < least || 8 * j > most) first = 0;
          if (8 * j + 1 < least || 8 * j + 1 > most) second = 0;
        }
        gradients[i][j][2 * h] = first * (gradients[i][j][2 * h] - d.x);
        gradients[i][j][2 * h + 1] = second * (gradients[i][j][2 * h + 1] - d.y);
      }
    }
  }
}

template <KeyShape kShape>
__device__ __forceinline__ void weigh_general(Slice<kShape>& weights, Slice<kShape>& gradients, const float* lse,
                                              const float* delta, const BackwardArguments& a, const KeyBlock& block, int head,
                                              const tile::Visible& visible, int key, int query) {
#pragma unroll
  for (int j = 0; j < kShape.slice / 8; ++j) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int t = query + 8 * j + e;
      const tile::ScoreRow row(a.p, a.buffers, block.b, head, t, block.sequence.shift);
      const int begin = visible.begin(t);
      const int end = t < block.sequence.query_count ? visible.end(t) : 0;
#pragma unroll
      for (int i = 0; i < kShape.row_tiles; ++i) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int s = key + 16 * i + 8 * h;
          float& x = weights[i][j][2 * h + e];
          float& g = gradients[i][j][2 * h + e];
          Weight w{};
          if (s >= begin && s < end) w = weight(a, row, lse[8 * j + e], delta[8 * j + e], x, g, s);
          x = w.kept;
          g = w.score;
        }
      }
    }
  }
}

// A left operand into shared memory, from the lane's address of the first 8x8 block on.
template <KeyShape kShape>
__device__ __forceinline__ void store_left(std::uint32_t to, const Left<kShape.row_tiles, kShape.slice>& left) {
#pragma unroll
  for (int i = 0; i < kShape.row_tiles; ++i) {
#pragma unroll
    for (int j = 0; j < kShape.slice / 8; ++j) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        ptx::store_shared((to ^ (j * 16)) + (16 * i + 8 * h) * tile::SharedTile<kShape.score_columns()>::kPitch,
                          left[i][j / 2][j % 2 * 2 + h]);
      }
    }
  }
}

// Adds a warp's gradients of queries to their sums; `to` is the lane's first element, rows from `count` on are no queries.
template <KeyShape kShape>
__device__ __forceinline__ void add_queries(float* to, const tile::Sums<kShape.query_row_tiles, kShape.query_columns()>& sums,
                                            int count) {
#pragma unroll
  for (int i = 0; i < kShape.query_row_tiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (16 * i + 8 * h >= count) continue;
#pragma unroll
      for (int j = 0; j < kShape.query_columns() / 8; ++j) {
        ptx::add(to + (16 * i + 8 * h) * kShape.head_dim + 8 * j, sums[i][j][2 * h], sums[i][j][2 * h + 1]);
      }
    }
  }
}

template <class T, class Of, bool kGeneral>
__global__ void __launch_bounds__(Of::kShape.threads(), Of::kShape.blocks)
    backward_keys(const __grid_constant__ BackwardArguments a) {
  constexpr KeyShape kShape = Of::kShape;
  constexpr int kHead = kShape.head_dim;
  constexpr int kThreads = kShape.threads();
  constexpr bool kShares = kShape.column_warps > 1;  // weights and gradients go through shared memory
  using Tile = tile::SharedTile<kHead>;
  using ScoreTile = tile::SharedTile<kShape.score_columns()>;
  extern __shared__ __align__(1024) unsigned char shared[];
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int warp = thread / 32;
  const int warp_key = warp % kShape.key_warps * 16 * kShape.row_tiles;
  const int column_warp = warp / kShape.key_warps;
  const int first_column = column_warp * kShape.columns_of_warp();
  const int warp_query = column_warp * kShape.queries_of_warp();

  const KeyBlock block(a, kShape.keys());
  const int held = static_cast<int>(block.sequence.key_count) - block.first_key;
  if (a.p.packed && held <= 0) return;  // rows of the next sequence, or of none
  const tile::Visible visible(a.p, block.sequence);

  const std::uint32_t key_tile = ptx::shared_address(shared);
  const std::uint32_t value_tile = key_tile + kShape.key_bytes();
  const std::uint32_t gradient_tile = value_tile + kShape.key_bytes();
  const std::uint32_t weight_tile = gradient_tile + kShape.score_bytes();
  constexpr int kFirstStage = 2 * kShape.key_bytes() + (kShares ? 2 : 1) * kShape.score_bytes();
  constexpr int kRows = kShape.stages * 2 * kShape.query_bytes();
  const std::uint32_t query_tiles = key_tile + kFirstStage;  // then output gradients, by stages; then lse and delta
  const float* const rows = reinterpret_cast<const float*>(shared + kFirstStage + kRows);
  const bool aligned = !kGeneral || a.aligned;

  // A tile of queries of one head; from the group's last head on there is none.
  struct Place {
    int head, query;
  };
  const int last_head = block.begin < block.end ? (block.key_head + 1) * a.group : 0;
  Place next{block.key_head * a.group, block.begin};
  const auto step = [&] {
    next.query += kShape.queries;
    if (next.query < block.end) return;
    next.query = block.begin;
    ++next.head;
  };

  // Starts the copies of the next tile and of its rows' lse and delta.
  const auto load_queries = [&](int stage) {
    const Place at = next;
    const int count = block.end - at.query;
    const std::int64_t token = block.sequence.query_begin + at.query;
    const std::uint32_t to = query_tiles + stage * 2 * kShape.query_bytes();
    load<kShape.queries, kHead, kThreads>(
        to, rows_from<T>(a.p.query, a.buffers.query, block.b, token, at.head, count, a.p.head_dim), aligned, thread);
    load<kShape.queries, kHead, kThreads>(
        to + kShape.query_bytes(),
        rows_from<T>(a.p.grad_out, a.buffers.grad_out, block.b, token, at.head, count, a.p.value_head_dim), aligned, thread);
    if (thread < 2 * kShape.queries) {
      const int row = thread % kShape.queries;
      const float* from =
          (thread < kShape.queries ? a.lse : a.delta) + a.first_row(block.b, at.head, block.sequence.query_begin) + at.query;
      const std::uint32_t own = key_tile + kFirstStage + kRows + stage * kShape.row_bytes() + thread * 4;
      ptx::cp_async_word(own, row < count ? from + row : from, row < count);  // a row of zeros gives none but zeros
    }
  };

  tile::Sums<kShape.row_tiles, kShape.columns_of_warp()> grad_key, grad_value;
  tile::clear<kShape.row_tiles, kShape.columns_of_warp()>(grad_key);
  tile::clear<kShape.row_tiles, kShape.columns_of_warp()>(grad_value);

  if (next.head < last_head) {
    const std::int64_t token = block.sequence.key_begin + block.first_key;
    load<kShape.keys(), kHead, kThreads>(
        key_tile, rows_from<T>(a.p.key, a.buffers.key, block.b, token, block.key_head, held, a.p.head_dim), aligned, thread);
    load<kShape.keys(), kHead, kThreads>(
        value_tile, rows_from<T>(a.p.value, a.buffers.value, block.b, token, block.key_head, held, a.p.value_head_dim), aligned,
        thread);
    load_queries(0);
    ptx::cp_async_commit();
    if (a.early != 1) {
      ptx::cp_async_wait<0>();
      scale_own<T, kShape.keys(), kHead, kThreads>(key_tile, a.early, thread);
    }
  }

  const std::uint32_t key_left = key_tile + warp_key * Tile::kPitch + tile::rows_first<kHead>(lane);
  const std::uint32_t value_left = value_tile + warp_key * Tile::kPitch + tile::rows_first<kHead>(lane);
  const std::uint32_t score_lane =
      (gradient_tile + (warp_key + lane / 4) * ScoreTile::kPitch + lane / 4 * 16 + lane % 4 * 4) ^ (warp_query * 2);
  const std::uint32_t score_left =
      gradient_tile + warp_key * ScoreTile::kPitch + tile::rows_first<kShape.score_columns()>(lane);
  // Of the gradients of queries.
  const int query_row = warp % kShape.query_warps() * 16 * kShape.query_row_tiles;
  const int query_column = warp / kShape.query_warps() * kShape.query_columns();
  const std::uint32_t score_transposed = (gradient_tile + tile::columns_first<kShape.score_columns()>(lane)) ^ (query_row * 2);
  const std::uint32_t key_right = (key_tile + tile::rows_first<kHead>(lane)) ^ (query_column * 2);

  for (int stage = 0; next.head < last_head;) {
    const Place at = next;
    step();
    ptx::cp_async_wait<0>();
    __syncthreads();
    if constexpr (kShape.stages > 1) {
      if (next.head < last_head) load_queries(stage ^ 1);
      ptx::cp_async_commit();
    }
    const std::uint32_t query_tile = query_tiles + stage * 2 * kShape.query_bytes();
    const std::uint32_t out_tile = query_tile + kShape.query_bytes();
    const float* const lse = rows + stage * 2 * kShape.queries;
    const int last_query = min(at.query + kShape.queries, block.end) - 1;
    const bool whole = block.first_key >= visible.begin(last_query) && block.first_key + kShape.keys() <= visible.end(at.query);

#pragma unroll
    for (int slice = 0; slice < kShape.queries_of_warp(); slice += kShape.slice) {
      const int first = warp_query + slice;
      const std::uint32_t lane_scores = score_lane ^ (slice * 2);
      if (!whole && hidden<kShape>(visible, block.first_key + warp_key, at.query + first)) {
        store_left<kShape>(lane_scores, {});
        if constexpr (kShares) store_left<kShape>(lane_scores + kShape.score_bytes(), {});
        continue;
      }
      Slice<kShape> weights, gradients;
      tile::clear<kShape.row_tiles, kShape.slice>(weights);
      tile::clear<kShape.row_tiles, kShape.slice>(gradients);
      const std::uint32_t columns = first * Tile::kPitch + tile::columns_first<kHead>(lane);
      tile::multiply_rows<T, kHead, kShape.row_tiles, kShape.slice>(weights, key_left, query_tile + columns);
      tile::multiply_rows<T, kHead, kShape.row_tiles, kShape.slice>(gradients, value_left, out_tile + columns);
      const int own = first + lane % 4 * 2;
      const int key = block.first_key + warp_key + lane / 4;
      if constexpr (kGeneral) {
        weigh_general<kShape>(weights, gradients, lse + own, lse + kShape.queries + own, a, block, at.head, visible, key,
                              at.query + own);
      } else {
        weigh<kShape>(weights, gradients, lse + own, lse + kShape.queries + own, a.factor, whole, visible, key, at.query + own);
      }
      Left<kShape.row_tiles, kShape.slice> left, left_gradients;
      round_to<T, kShape.row_tiles, kShape.slice>(left, weights);
      round_to<T, kShape.row_tiles, kShape.slice>(left_gradients, gradients);
      store_left<kShape>(lane_scores, left_gradients);
      if constexpr (kShares) {
        store_left<kShape>(lane_scores + kShape.score_bytes(), left);
      } else {
        const std::uint32_t right = first * Tile::kPitch + tile::rows_first<kHead>(lane);
        multiply_left<T, kHead, kShape.row_tiles, kShape.slice, kHead>(grad_value, left, out_tile + right);
        multiply_left<T, kHead, kShape.row_tiles, kShape.slice, kHead>(grad_key, left_gradients, query_tile + right);
      }
    }
    __syncthreads();
    if constexpr (kShares) {
      const std::uint32_t right = tile::rows_first<kHead>(lane) ^ (first_column * 2);
      multiply_shared<T, kShape.score_columns(), false, kHead, kShape.queries, kShape.row_tiles, kShape.columns_of_warp()>(
          grad_value, score_left + kShape.score_bytes(), out_tile + right);
      multiply_shared<T, kShape.score_columns(), false, kHead, kShape.queries, kShape.row_tiles, kShape.columns_of_warp()>(
          grad_key, score_left, query_tile + right);
      if (kShape.stages == 1) __syncthreads();
    }
    if constexpr (kShape.stages == 1) {
      if (next.head < last_head) load_queries(0);
      ptx::cp_async_commit();
    } else {
      stage ^= 1;
    }
    if (a.query_sums) {
      tile::Sums<kShape.query_row_tiles, kShape.query_columns()> grad_query;
      tile::clear<kShape.query_row_tiles, kShape.query_columns()>(grad_query);
      multiply_shared<T, kShape.score_columns(), true, kHead, kShape.keys(), kShape.query_row_tiles, kShape.query_columns()>(
          grad_query, score_transposed, key_right);
      const int own = query_row + lane / 4;
      float* to = a.query_sums + (a.first_row(block.b, at.head, block.sequence.query_begin) + at.query + own) * kHead +
                  query_column + lane % 4 * 2;
      add_queries<kShape>(to, grad_query, block.end - at.query - own);
    }
  }

  __syncthreads();  // keys and values lie there no more
  stage_sums<T, kHead, kShape.row_tiles, kShape.columns_of_warp()>(key_tile, grad_key, a.scale, warp_key, first_column, lane);
  stage_sums<T, kHead, kShape.row_tiles, kShape.columns_of_warp()>(value_tile, grad_value, 1, warp_key, first_column, lane);
  __syncthreads();
  const auto store = [&](std::uint32_t from, const core::Operand& x, void* data, std::int64_t width) {
    if (!x.present()) return;
    const int count = a.p.packed ? held : static_cast<int>(a.p.key_length) - block.first_key;
    const auto to = rows_from<T>(x, data, block.b, block.sequence.key_begin + block.first_key, block.key_head, count, width);
    store_rows<T, kShape.keys(), kHead, kThreads>(from, const_cast<T*>(to.first), to.stride, count, to.width,
                                                  x.alignment >= tile::kChunkBytes, thread);
  };
  store(key_tile, a.p.grad_key, a.buffers.grad_key, a.p.head_dim);
  store(value_tile, a.p.grad_value, a.buffers.grad_value, a.p.value_head_dim);
}

}  // namespace dhyan::cuda::portable

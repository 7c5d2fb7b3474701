// SPDX-License-Identifier: Apache-2.0
// Backward by keys. One block: a tile of keys and values of one key head against the tiles of queries, of all heads of the
// group, that see some of them. Scores are computed transposed, so that their weights are left operands as they are.
#pragma once

#include "cuda/portable/backward_sums.cuh"
#include "cuda/portable/backward_tile.cuh"

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
    begin = static_cast<int>(queries.begin) / 8 * 8;  // sums lie in groups of 8 rows
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

// Block j of 8 queries: scores become weights. lse is the address of the lane's first query in shared memory.
template <KeyShape kShape>
__device__ __forceinline__ void weights_of(Slice<kShape>& scores, const float* lse, float factor, int j) {
  const float2 l = *reinterpret_cast<const float2*>(lse + 8 * j);
#pragma unroll
  for (int i = 0; i < kShape.row_tiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      scores[i][j][2 * h] = ptx::exp2(scores[i][j][2 * h] * factor - l.x);
      scores[i][j][2 * h + 1] = ptx::exp2(scores[i][j][2 * h + 1] * factor - l.y);
    }
  }
}

// Weights of keys that a query does not see become 0. The key and the query are those of the lane's first element.
template <KeyShape kShape>
__device__ __forceinline__ void hide(Slice<kShape>& weights, const tile::Visible& visible, int key, int query, int j) {
#pragma unroll
  for (int i = 0; i < kShape.row_tiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int s = key + 16 * i + 8 * h;
      const int least = s - visible.right + 1 - query;  // queries that see the key
      const int most = s < visible.keys ? s - visible.left - query : -0x7fffffff;
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        if (8 * j + e < least || 8 * j + e > most) weights[i][j][2 * h + e] = 0;
      }
    }
  }
}

// Gradients of weights become those of scores.
template <KeyShape kShape>
__device__ __forceinline__ void gradients_of(Slice<kShape>& gradients, const Slice<kShape>& weights, const float* delta,
                                             int j) {
  const float2 d = *reinterpret_cast<const float2*>(delta + 8 * j);
#pragma unroll
  for (int i = 0; i < kShape.row_tiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      gradients[i][j][2 * h] = weights[i][j][2 * h] * (gradients[i][j][2 * h] - d.x);
      gradients[i][j][2 * h + 1] = weights[i][j][2 * h + 1] * (gradients[i][j][2 * h + 1] - d.y);
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

// Adds a warp's gradients of queries to their sums, four neighbours of the lane at once; rows from `count` on are no queries.
template <KeyShape kShape, bool kRows>
__device__ __forceinline__ void add_queries(float* to, const tile::Sums<kShape.query_row_tiles, kShape.query_columns()>& sums,
                                            int count) {
  using Order = SumsOrder<kRows>;
#pragma unroll
  for (int i = 0; i < kShape.query_row_tiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (16 * i + 8 * h >= count) continue;
#pragma unroll
      for (int j = 0; j < kShape.query_columns() / 16; ++j) {
        const float(&low)[4] = sums[i][2 * j];
        const float(&high)[4] = sums[i][2 * j + 1];
        Order::add(to + (2 * i + h) * 8 * kShape.head_dim + j * Order::kBlock, low[2 * h], low[2 * h + 1], high[2 * h],
                   high[2 * h + 1]);
      }
    }
  }
}

// A tile of queries of one head.
struct QueryPlace {
  int head, query;
};

// One thread's part of a block's work.
template <class T, class Of, bool kGeneral>
struct KeyWork {
  static constexpr KeyShape kShape = Of::kShape;
  static constexpr int kHead = kShape.head_dim;
  static constexpr int kThreads = kShape.threads();
  static constexpr bool kShares = kShape.column_warps > 1;  // weights and gradients go through shared memory
  static constexpr int kQueryBytes = kShape.query_bytes();
  static constexpr int kScoreBytes = kShape.score_bytes();
  static constexpr int kFirstStage = 2 * kShape.key_bytes() + (kShares ? 2 : 1) * kScoreBytes;
  static constexpr int kRows = kFirstStage + kShape.stages * 2 * kQueryBytes;  // lse and delta, behind all stages
  static constexpr int kWarpColumns = kShape.columns_of_warp();
  static constexpr int kQueryColumns = kShape.query_columns();
  using Tile = tile::SharedTile<kHead>;
  using ScoreTile = tile::SharedTile<kShape.score_columns()>;
  using Scores = tile::Sums<kShape.row_tiles, kShape.slice>;
  using Rounded = Left<kShape.row_tiles, kShape.slice>;

  const BackwardArguments& a;
  const KeyBlock& block;
  const tile::Visible visible;
  const float* const rows;  // lse and delta in shared memory
  const bool aligned;
  const int thread, lane;
  int warp_key, warp_query, first_column;  // of the warp: keys, queries of its scores, columns of its gradients
  int query_row, query_column;             // of its gradients of queries
  std::uint32_t key_tile, query_tiles;     // values behind keys; output gradients behind queries, by stages
  std::uint32_t key_left, value_left;      // of the lane, as operands
  std::uint32_t score_lane, score_left, score_transposed, key_right;
  QueryPlace next;
  int last_head;  // from there on there is no next tile
  tile::Sums<kShape.row_tiles, kWarpColumns> grad_key, grad_value;

  __device__ __forceinline__ KeyWork(const BackwardArguments& arguments, const KeyBlock& own, unsigned char* shared)
      : a(arguments),
        block(own),
        visible(arguments.p, own.sequence),
        rows(reinterpret_cast<const float*>(shared + kRows)),
        aligned(!kGeneral || arguments.aligned),
        thread(static_cast<int>(threadIdx.x)),
        lane(thread % 32) {
    const int warp = thread / 32;
    const int column_warp = warp / kShape.key_warps;
    warp_key = warp % kShape.key_warps * 16 * kShape.row_tiles;
    warp_query = column_warp * kShape.queries_of_warp();
    first_column = column_warp * kWarpColumns;
    query_row = warp % kShape.query_warps() * 16 * kShape.query_row_tiles;
    query_column = warp / kShape.query_warps() * kQueryColumns;
    key_tile = ptx::shared_address(shared);
    query_tiles = key_tile + kFirstStage;
    const std::uint32_t gradient_tile = key_tile + 2 * kShape.key_bytes();  // weights behind it where they go there
    key_left = key_tile + warp_key * Tile::kPitch + tile::rows_first<kHead>(lane);
    value_left = key_left + kShape.key_bytes();
    score_lane = (gradient_tile + (warp_key + lane / 4) * ScoreTile::kPitch + lane / 4 * 16 + lane % 4 * 4) ^ (warp_query * 2);
    score_left = gradient_tile + warp_key * ScoreTile::kPitch + tile::rows_first<kShape.score_columns()>(lane);
    score_transposed = (gradient_tile + tile::columns_first<kShape.score_columns()>(lane)) ^ (query_row * 2);
    key_right = (key_tile + tile::rows_first<kHead>(lane)) ^ (query_column * 2);
    next = {block.key_head * a.group, block.begin};
    last_head = block.begin < block.end ? (block.key_head + 1) * a.group : 0;
    tile::clear<kShape.row_tiles, kWarpColumns>(grad_key);
    tile::clear<kShape.row_tiles, kWarpColumns>(grad_value);
  }

  __device__ __forceinline__ bool more() const { return next.head < last_head; }
  __device__ __forceinline__ QueryPlace step() {
    const QueryPlace at = next;
    next.query += kShape.queries;
    if (next.query >= block.end) next = {next.head + 1, block.begin};
    return at;
  }

  __device__ __forceinline__ void load_keys(int held) {
    const std::int64_t token = block.sequence.key_begin + block.first_key;
    const auto key = rows_from<T>(a.p.key, a.buffers.key, block.b, token, block.key_head, held, a.p.head_dim);
    const auto value = rows_from<T>(a.p.value, a.buffers.value, block.b, token, block.key_head, held, a.p.value_head_dim);
    load<kShape.keys(), kHead, kThreads>(key_tile, key, aligned, thread);
    load<kShape.keys(), kHead, kThreads>(key_tile + kShape.key_bytes(), value, aligned, thread);
  }

  // Starts the copies of the next tile, if there is one, and of its rows' lse and delta.
  __device__ __forceinline__ void load_queries(int stage) {
    if (more()) {
      const int count = block.end - next.query;
      const std::int64_t token = block.sequence.query_begin + next.query;
      const std::uint32_t to = query_tiles + stage * 2 * kQueryBytes;
      const auto query = rows_from<T>(a.p.query, a.buffers.query, block.b, token, next.head, count, a.p.head_dim);
      const auto out = rows_from<T>(a.p.grad_out, a.buffers.grad_out, block.b, token, next.head, count, a.p.value_head_dim);
      load<kShape.queries, kHead, kThreads>(to, query, aligned, thread);
      load<kShape.queries, kHead, kThreads>(to + kQueryBytes, out, aligned, thread);
      if (thread < 2 * kShape.queries) {
        const int row = thread % kShape.queries;
        const float* from = (thread < kShape.queries ? a.lse : a.delta) +
                            a.first_row(block.b, next.head, block.sequence.query_begin) + next.query;
        const std::uint32_t own = key_tile + kRows + stage * kShape.row_bytes() + thread * 4;
        ptx::cp_async_word(own, row < count ? from + row : from, row < count);  // a row of zeros gives none but zeros
      }
    }
    ptx::cp_async_commit();
  }

  // Whether every query of a tile sees every key.
  __device__ __forceinline__ bool all_seen(QueryPlace at) const {
    const int last_query = min(at.query + kShape.queries, block.end) - 1;
    return block.first_key >= visible.begin(last_query) && block.first_key + kShape.keys() <= visible.end(at.query);
  }

  // Where the slice from query `first` of a tile on lies, for products with its rows.
  __device__ __forceinline__ std::uint32_t slice_columns(int stage, int first) const {
    return query_tiles + stage * 2 * kQueryBytes + first * Tile::kPitch + tile::columns_first<kHead>(lane);
  }
  __device__ __forceinline__ const float* lse_of(int stage, int first) const {
    return rows + stage * 2 * kShape.queries + first + lane % 4 * 2;
  }

  // Scores of a slice and gradients of their weights; where all is seen, scores become weights meanwhile, also rounded ones.
  template <bool kWhole>
  __device__ __forceinline__ void multiply_slice(Scores& weights, Scores& gradients, Rounded& left, int stage,
                                                 int first) const {
    constexpr int kSteps = kHead / 16;
    constexpr int kBlocks = kShape.slice / 8;
    const std::uint32_t right = slice_columns(stage, first);
    tile::clear<kShape.row_tiles, kShape.slice>(weights);
    tile::clear<kShape.row_tiles, kShape.slice>(gradients);
    tile::multiply_rows<T, kHead, kShape.row_tiles, kShape.slice>(weights, key_left, right);
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      multiply_rows_step<T, kHead, kShape.row_tiles, kShape.slice>(gradients, value_left, right + kQueryBytes, k);
      if constexpr (kWhole) {
#pragma unroll
        for (int j = k * kBlocks / kSteps; j < (k + 1) * kBlocks / kSteps; ++j) {
          weights_of<kShape>(weights, lse_of(stage, first), a.factor, j);
          round_block<T, kShape.row_tiles, kShape.slice>(left, weights, j);
        }
      }
    }
  }

  // Block j of a slice's gradients, rounded.
  __device__ __forceinline__ void take_gradients(Rounded& left, Scores& gradients, const Scores& weights, int stage, int first,
                                                 int j) const {
    gradients_of<kShape>(gradients, weights, lse_of(stage, first) + kShape.queries, j);
    round_block<T, kShape.row_tiles, kShape.slice>(left, gradients, j);
  }

  // Where not all is seen: both become weights and gradients of scores, then rounded ones.
  __device__ __forceinline__ void weigh_broken(Scores& weights, Scores& gradients, Rounded& left, Rounded& left_gradients,
                                               int stage, QueryPlace at, int first) const {
    const float* const lse = lse_of(stage, first);
    const int key = block.first_key + warp_key + lane / 4;
    const int query = at.query + first + lane % 4 * 2;
    if (kGeneral && !a.plain) {
      weigh_general<kShape>(weights, gradients, lse, lse + kShape.queries, a, block, at.head, visible, key, query);
    } else {
#pragma unroll
      for (int j = 0; j < kShape.slice / 8; ++j) {
        weights_of<kShape>(weights, lse, a.factor, j);
        hide<kShape>(weights, visible, key, query, j);
        gradients_of<kShape>(gradients, weights, lse + kShape.queries, j);
      }
    }
    round_to<T, kShape.row_tiles, kShape.slice>(left, weights);
    round_to<T, kShape.row_tiles, kShape.slice>(left_gradients, gradients);
  }

  // Takes a slice whose queries see all keys, or not. Weights and gradients that lie in registers give to keys and values at
  // once; others go through shared memory.
  template <bool kWhole>
  __device__ __forceinline__ void take_slice(int stage, QueryPlace at, int slice) {
    const int first = warp_query + slice;
    const std::uint32_t to = score_lane ^ (slice * 2);
    if constexpr (!kWhole) {
      if (hidden<kShape>(visible, block.first_key + warp_key, at.query + first)) {
        store_left<kShape>(to, {});
        if constexpr (kShares) store_left<kShape>(to + kScoreBytes, {});
        return;
      }
    }
    Scores weights, gradients;
    Rounded left, left_gradients;
    multiply_slice<kWhole>(weights, gradients, left, stage, first);
    if constexpr (!kWhole) weigh_broken(weights, gradients, left, left_gradients, stage, at, first);
    if constexpr (kShares) {
      store_left<kShape>(to + kScoreBytes, left);
      if constexpr (kWhole) {
#pragma unroll
        for (int j = 0; j < kShape.slice / 8; ++j) take_gradients(left_gradients, gradients, weights, stage, first, j);
      }
    } else {
      const std::uint32_t right = query_tiles + stage * 2 * kQueryBytes + first * Tile::kPitch + tile::rows_first<kHead>(lane);
#pragma unroll
      for (int k = 0; k < kShape.slice / 16; ++k) {
        multiply_left_step<T, kHead, kShape.row_tiles, kShape.slice, kHead>(grad_value, left, right + kQueryBytes, k);
        if constexpr (kWhole) {
          take_gradients(left_gradients, gradients, weights, stage, first, 2 * k);
          take_gradients(left_gradients, gradients, weights, stage, first, 2 * k + 1);
        }
      }
      multiply_left<T, kHead, kShape.row_tiles, kShape.slice, kHead>(grad_key, left_gradients, right);
    }
    store_left<kShape>(to, left_gradients);
  }

  // Adds what a tile whose weights and gradients lie in shared memory gives to keys and values.
  __device__ __forceinline__ void multiply_tile(int stage) {
    const std::uint32_t right = (query_tiles + stage * 2 * kQueryBytes + tile::rows_first<kHead>(lane)) ^ (first_column * 2);
#pragma unroll
    for (int k = 0; k < kShape.queries / 16; ++k) {
      multiply_shared_step<T, kShape.score_columns(), false, kHead, kShape.row_tiles, kWarpColumns>(
          grad_value, score_left + kScoreBytes, right + kQueryBytes, k);
      multiply_shared_step<T, kShape.score_columns(), false, kHead, kShape.row_tiles, kWarpColumns>(grad_key, score_left, right,
                                                                                                    k);
    }
  }

  // Adds what a tile gives to its queries.
  __device__ __forceinline__ void multiply_queries(QueryPlace at) const {
    if (!a.query_sums) return;
    tile::Sums<kShape.query_row_tiles, kQueryColumns> grad_query;
    tile::clear<kShape.query_row_tiles, kQueryColumns>(grad_query);
#pragma unroll
    for (int k = 0; k < kShape.keys() / 16; ++k) {
      multiply_shared_step<T, kShape.score_columns(), true, kHead, kShape.query_row_tiles, kQueryColumns>(
          grad_query, score_transposed, key_right, k);
    }
    const std::int64_t row = a.first_row(block.b, at.head, block.sequence.query_begin) + at.query + query_row;
    const int count = block.end - at.query - query_row - lane / 4;
    add_in_order<true>(grad_query, row, count, a.p.packed);
    add_in_order<false>(grad_query, row, count, !a.p.packed);
  }
  template <bool kInRows>
  __device__ __forceinline__ void add_in_order(const tile::Sums<kShape.query_row_tiles, kQueryColumns>& grad_query,
                                               std::int64_t row, int count, bool so) const {
    if (!so) return;
    using Order = SumsOrder<kInRows>;
    float* const to = a.query_sums + row * kHead + Order::of_lane(lane, kHead) + query_column / 16 * Order::kBlock;
    add_queries<kShape, kInRows>(to, grad_query, count);
  }

  // Every tile in turn.
  __device__ __forceinline__ void run() {
    int stage = 0;
    while (more()) {
      const QueryPlace at = step();
      ptx::cp_async_wait<0>();
      __syncthreads();
      if constexpr (kShape.stages > 1) load_queries(stage ^ 1);
      if (!kGeneral && all_seen(at)) {  // straight code
#pragma unroll
        for (int slice = 0; slice < kShape.queries_of_warp(); slice += kShape.slice) take_slice<true>(stage, at, slice);
      } else {
#pragma unroll 1
        for (int slice = 0; slice < kShape.queries_of_warp(); slice += kShape.slice) take_slice<false>(stage, at, slice);
      }
      __syncthreads();
      if constexpr (kShares) {
        multiply_tile(stage);
        if constexpr (kShape.stages == 1) __syncthreads();
      }
      if constexpr (kShape.stages == 1) {
        load_queries(0);
      } else {
        stage ^= 1;
      }
      multiply_queries(at);
    }
  }

  // Writes a tile of gradients, 0 for keys past the sequence's last.
  __device__ __forceinline__ void store(std::uint32_t from, const core::Operand& x, void* data, std::int64_t width,
                                        int held) const {
    if (!x.present()) return;
    const int count = a.p.packed ? held : static_cast<int>(a.p.key_length) - block.first_key;
    const auto to = rows_from<T>(x, data, block.b, block.sequence.key_begin + block.first_key, block.key_head, count, width);
    store_rows<T, kShape.keys(), kHead, kThreads>(from, const_cast<T*>(to.first), to.stride, count, to.width,
                                                  x.alignment >= tile::kChunkBytes, thread);
  }
};

template <class T, class Of, bool kGeneral>
__global__ void __launch_bounds__(Of::kShape.threads(), Of::kShape.blocks)
    backward_keys(const __grid_constant__ BackwardArguments a) {
  using Work = KeyWork<T, Of, kGeneral>;
  extern __shared__ __align__(1024) unsigned char shared[];
  const KeyBlock block(a, Work::kShape.keys());
  const int held = static_cast<int>(block.sequence.key_count) - block.first_key;
  if (a.p.packed && held <= 0) return;  // rows of the next sequence, or of none
  Work work(a, block, shared);
  if (work.more()) {
    work.load_keys(held);
    work.load_queries(0);
    if (a.early != 1) {
      ptx::cp_async_wait<0>();
      scale_own<T, Work::kShape.keys(), Work::kHead, Work::kThreads>(work.key_tile, a.early, work.thread);
    }
  }
  work.run();

  __syncthreads();  // keys and values lie there no more
  const std::uint32_t value_tile = work.key_tile + Work::kShape.key_bytes();
  stage_sums<T, Work::kHead, Work::kShape.row_tiles, Work::kWarpColumns>(work.key_tile, work.grad_key, a.scale, work.warp_key,
                                                                         work.first_column, work.lane);
  stage_sums<T, Work::kHead, Work::kShape.row_tiles, Work::kWarpColumns>(value_tile, work.grad_value, 1, work.warp_key,
                                                                         work.first_column, work.lane);
  __syncthreads();
  work.store(work.key_tile, a.p.grad_key, a.buffers.grad_key, a.p.head_dim, held);
  work.store(value_tile, a.p.grad_value, a.buffers.grad_value, a.p.value_head_dim, held);
}

}  // namespace dhyan::cuda::portable

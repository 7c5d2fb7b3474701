// SPDX-License-Identifier: Apache-2.0
// Forward by mma.sync, for f16 and bf16. One block: a tile of rows (queries; heads that share a key head lie side by side) of
// one batch entry and key head, against the tiles of keys that some row sees, or one split of them.
#pragma once

#include "cuda/portable/forward_end.cuh"
#include "cuda/portable/forward_scores.cuh"
#include "cuda/portable/operands.cuh"
#include "cuda/ptx/dependent.cuh"

namespace dhyan::cuda::portable {

template <class T, int kClass, int kUse, bool kGeneral>
__device__ __forceinline__ void forward(const ForwardArguments& a, const Terms* terms) {
  constexpr ForwardShape kShape = kForwardShapes[kClass][kUse];
  using Tile = tile::SharedTile<kShape.head_dim>;
  extern __shared__ __align__(1024) unsigned char shared[];
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int warp = thread / 32;
  const int warp_row = warp % kShape.row_warps * 16 * kShape.row_tiles;
  const int key_warp = warp / kShape.row_warps % kShape.key_warps;
  const int first_column = warp / (kShape.row_warps * kShape.key_warps) * kShape.columns_of_warp();
  const int warp_key = key_warp * kShape.keys_of_warp();

  ForwardBlock block(a, kShape.rows());
  ptx::let_dependents_start();
  ptx::wait_for_former();
  block.locate(a);
  const bool split = kUse != static_cast<int>(ForwardUse::large) && a.splits > 1;  // large tiles are for full grids
  const int first_query = block.query(a, 0);
  if (a.packed && first_query >= block.queries && !split) return;  // rows of the next sequence, or of none
  const tile::Visible visible(block.sequence, a.window_left, a.window_right);
  const int last_query = min(block.query(a, block.rows - 1), block.queries - 1);

  // Tiles of keys that some row sees, of this split.
  int first = 0;
  int last = 0;
  if (first_query < block.queries) {
    first = visible.begin(first_query) / kShape.keys;
    last = (visible.end(last_query) + kShape.keys - 1) / kShape.keys;
    if (split) {
      const int each = (max(last - first, 0) + a.splits - 1) / a.splits;
      first += each * block.split;
      last = min(last, first + each);
    }
  }

  const std::uint32_t query_tile = ptx::shared_address(shared);
  const std::uint32_t key_tiles = query_tile + kShape.query_bytes();
  const std::uint32_t value_tiles = key_tiles + kShape.stages * kShape.tile_bytes();
  const bool aligned = !kGeneral || a.aligned;
  const tile::GlobalRows<T> keys = key_rows<T>(a.key, a.key_strides, block, a.head_dim);
  const tile::GlobalRows<T> values = key_rows<T>(a.value, a.value_strides, block, a.value_head_dim);
  const auto load_keys = [&](int which, int stage) {
    load_rows<kShape.keys, kShape.head_dim, kShape.threads()>(key_tiles + stage * kShape.tile_bytes(), keys, which, aligned,
                                                              thread);
  };
  const auto load_values = [&](int which, int stage) {
    load_rows<kShape.keys, kShape.head_dim, kShape.threads()>(value_tiles + stage * kShape.tile_bytes(), values, which, aligned,
                                                              thread);
  };
  const bool sparse = kGeneral && terms->p.mask.present();
  const auto next = [&](int which) { return sparse ? next_seen<kShape>(a, *terms, block, which, last) : which; };

  Outputs<kShape> out;
  tile::clear<kShape.row_tiles, kShape.columns_of_warp()>(out);
  tile::Softmax<kShape.row_tiles> softmax;

  // The tile under work and those on their way; from `last` on there is none. Few blocks wait for memory and fill every stage
  // at once; many would rather pass one barrier less per tile.
  constexpr bool kEager = kShape.key_warps > 1 && kShape.stages > 1;
  constexpr int kAhead = kShape.stages == 1 || kEager ? kShape.stages : kShape.stages - 1;
  int tiles[kAhead + 1];
  tiles[0] = next(first);
  if (tiles[0] < last) {
    load_queries<T, kShape>(query_tile, a, block, aligned, thread);
    load_keys(tiles[0], 0);
    ptx::cp_async_commit();
    load_values(tiles[0], 0);
    ptx::cp_async_commit();
  }
#pragma unroll
  for (int s = 1; s < kAhead; ++s) {
    tiles[s] = next(tiles[s - 1] + 1);
    if (tiles[s] < last) {
      load_keys(tiles[s], s);
      load_values(tiles[s], s);
    }
    ptx::cp_async_commit();
  }
  if (a.early != 1 && tiles[0] < last) {
    ptx::cp_async_wait<kAhead>();
    scale_queries<T, kShape>(query_tile, a.early, thread);
  }

  const std::uint32_t left = query_tile + warp_row * Tile::kPitch + tile::rows_first<kShape.head_dim>(lane);
  const std::uint32_t key_lane = key_tiles + warp_key * Tile::kPitch + tile::columns_first<kShape.head_dim>(lane);
  const std::uint32_t value_lane =
      value_tiles + warp_key * Tile::kPitch + (tile::rows_first<kShape.head_dim>(lane) ^ (first_column * 2));

  for (int stage = 0; tiles[0] < last;) {
    ptx::cp_async_wait<kShape.stages == 1 ? 1 : kAhead - 1>();
    __syncthreads();
    tiles[kAhead] = next(tiles[kAhead - 1] + 1);
    if constexpr (kShape.stages > 1 && !kEager) {
      if (tiles[kAhead] < last) {
        const int freed = (stage + kAhead) % kShape.stages;  // by the last round
        load_keys(tiles[kAhead], freed);
        load_values(tiles[kAhead], freed);
      }
      ptx::cp_async_commit();
    }

    Scores<kShape> scores;
    tile::clear<kShape.row_tiles, kShape.keys_of_warp()>(scores);
    tile::multiply_rows<T, kShape.head_dim, kShape.row_tiles, kShape.keys_of_warp()>(scores, left,
                                                                                     key_lane + stage * kShape.tile_bytes());
    if constexpr (kShape.stages == 1) {
      __syncthreads();
      if (tiles[1] < last) load_keys(tiles[1], 0);
      ptx::cp_async_commit();
    }

    const int tile_key = tiles[0] * kShape.keys;
    const int first_key = tile_key + warp_key;
    if constexpr (kGeneral) {
      finish_scores<kShape>(scores, a, *terms, block, visible, warp_row, first_key, lane);
    } else {
      const bool whole = tile_key >= visible.begin(last_query) && tile_key + kShape.keys <= visible.end(first_query);
      if (!whole) hide<kShape>(scores, a, block, visible, warp_row, first_key, lane);
    }
    softmax.template add<kGeneral, kShape.keys_of_warp(), kShape.columns_of_warp()>(scores, out,
                                                                                    kGeneral ? tile::kLog2E : a.factor);
    if (kGeneral && terms->p.has_dropout()) drop<kShape>(scores, a, *terms, block, warp_row, first_key, lane);

    if constexpr (kShape.stages == 1) {
      ptx::cp_async_wait<1>();
      __syncthreads();
    }
    tile::multiply_weights<T, kShape.head_dim, kShape.row_tiles, kShape.keys_of_warp(), kShape.columns_of_warp()>(
        out, scores, value_lane + stage * kShape.tile_bytes());
    if constexpr (kShape.stages == 1) {
      __syncthreads();
      if (tiles[1] < last) load_values(tiles[1], 0);
      ptx::cp_async_commit();
    } else {
      if constexpr (kEager) {
        __syncthreads();
        if (tiles[kAhead] < last) {
          load_keys(tiles[kAhead], stage);
          load_values(tiles[kAhead], stage);
        }
        ptx::cp_async_commit();
      }
      stage = (stage + 1) % kShape.stages;
    }
#pragma unroll
    for (int s = 0; s < kAhead; ++s) tiles[s] = tiles[s + 1];
  }
  ptx::cp_async_wait<0>();

#pragma unroll
  for (int i = 0; i < kShape.row_tiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) softmax.sum[i][h] = tile::row_sum(softmax.sum[i][h]);
  }
  const float factor = kGeneral ? tile::kLog2E : a.factor;
  if constexpr (kShape.key_warps > 1) {
    join_key_warps<kShape>(softmax, out, reinterpret_cast<float*>(shared), factor, key_warp, warp_row, lane);
  }
  __syncthreads();  // queries, keys and values lie there no more
  auto* const rows = reinterpret_cast<RowEnd*>(shared + kShape.query_bytes());
  if (key_warp == 0 && first_column == 0) publish<kShape>(softmax, rows, warp_row, lane);
  __syncthreads();
  finish_rows<kShape>(rows, a, block, factor / tile::kLog2E, split, thread);
  __syncthreads();
  if (key_warp == 0) {
    normalise<kShape>(out, rows, block, warp_row, lane);
    if (split) {
      store_part<kShape>(out, a, block, first_column, warp_row, lane);
    } else {
      stage_outputs<T, kShape>(query_tile, out, first_column, warp_row, lane);
    }
  }
  if (split) return;
  __syncthreads();
  store_outputs<T, kShape>(query_tile, a, block, aligned, thread);
}

template <class T, int kClass, int kUse>
__global__ void __launch_bounds__(kForwardShapes[kClass][kUse].threads(), kForwardShapes[kClass][kUse].blocks)
    forward_plain(const __grid_constant__ ForwardArguments a) {
  forward<T, kClass, kUse, false>(a, nullptr);
}

template <class T, int kClass, int kUse>
__global__ void __launch_bounds__(kForwardShapes[kClass][kUse].threads(), kForwardShapes[kClass][kUse].blocks)
    forward_general(const __grid_constant__ ForwardArguments a, const __grid_constant__ core::Problem p,
                    const __grid_constant__ core::Buffers buffers) {
  const Terms terms{p, buffers};
  forward<T, kClass, kUse, true>(a, &terms);
}

}  // namespace dhyan::cuda::portable

// SPDX-License-Identifier: Apache-2.0
// Forward by mma.sync for f32, as TF32 in three products or in one. f32.md says why it is as it is. Unlike the 16-bit kernels'
// warps along the keys, those here have tiles of their own and wait for nobody but the warps that share them: while one group's
// tensor cores rest, the other's work.
#pragma once

#include "cuda/portable/f32_rows.cuh"
#include "cuda/portable/forward_end.cuh"
#include "cuda/portable/forward_scores.cuh"
#include "cuda/ptx/barrier.cuh"
#include "cuda/ptx/dependent.cuh"

namespace dhyan::cuda::portable {

// One group's work: every key_warps-th tile from the group's own on.
template <ForwardShape kShape, tile::Split kSplit>
__device__ __forceinline__ void attend(Outputs<kShape>& out, tile::Softmax<1>& softmax, const ForwardArguments& a,
                                       const Terms& terms, const ForwardBlock& block, const tile::Visible& visible,
                                       std::uint32_t query_tile, int first, int last) {
  using Tile = tile::FloatTile<kShape.head_dim>;
  constexpr int kKeys = kShape.keys_of_warp();
  constexpr int kGroupThreads = 32 * kShape.row_warps;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warp_row = warp % kShape.row_warps * 16;
  const int group = warp / kShape.row_warps;
  const int thread = static_cast<int>(threadIdx.x) % kGroupThreads;
  const auto meet = [&] { ptx::barrier(1 + group, kGroupThreads); };

  const std::uint32_t key_tile = query_tile + kShape.query_bytes() + group * 2 * Tile::bytes(kKeys);
  const std::uint32_t value_tile = key_tile + Tile::bytes(kKeys);
  const std::uint32_t left = query_tile + warp_row * Tile::kPitch + tile::rows_first<2 * kShape.head_dim>(lane);
  const std::uint32_t right = key_tile + tile::columns_first<2 * kShape.head_dim>(lane);
  const tile::ValueLane values_lane = tile::value_lane<kShape.head_dim>(value_tile, lane);

  const FloatRows keys = float_key_rows(a.key, a.key_strides, block, a.head_dim);
  const FloatRows values = float_key_rows(a.value, a.value_strides, block, a.value_head_dim);
  const auto load = [&](std::uint32_t to, const FloatRows& from, int which) {
    load_float_rows<kKeys, kShape.head_dim, kGroupThreads>(to, from.from_row(which * kKeys), a.aligned, thread);
    ptx::cp_async_commit();
  };
  const auto next = [&](int which) {
    return terms.p.mask.present() ? next_seen_of_group<kShape>(a, terms, block, which, last, group, thread) : which;
  };
  const int last_query = min(block.query(a, block.rows - 1), block.queries - 1);
  const int first_query = block.query(a, 0);

  tile::clear<1, kShape.head_dim>(out);
  softmax = {};
  int which = next(first + group);
  if (which < last) load(key_tile, keys, which);
  while (which < last) {
    ptx::cp_async_wait<0>();
    meet();  // keys are there, values of the tile before are used up
    load(value_tile, values, which);
    Scores<kShape> scores;
    tile::multiply_float_rows<kSplit, kShape.head_dim, kKeys>(scores, left, right);

    const int first_key = which * kKeys;
    if (!a.plain) {
      finish_scores<kShape>(scores, a, terms, block, visible, warp_row, first_key, lane);
    } else if (first_key < visible.begin(last_query) || first_key + kKeys > visible.end(first_query)) {
      hide<kShape>(scores, a, block, visible, warp_row, first_key, lane);
    }
    float shrink[1][2];
    softmax.template weigh<true, kKeys>(scores, shrink, a.plain ? a.factor : tile::kLog2E);
    if (terms.p.has_dropout()) drop<kShape>(scores, a, terms, block, warp_row, first_key, lane);

    which = next(which + kShape.key_warps);
    ptx::cp_async_wait<0>();
    meet();  // values are there, keys are used up
    if (which < last) load(key_tile, keys, which);
    tile::multiply_float_weights<kSplit, kKeys, kShape.head_dim>(out, shrink, scores, values_lane);
  }
}

// Whether one of the block's results is NaN. All threads take part.
template <ForwardShape kShape>
__device__ __forceinline__ bool any_nan(const Outputs<kShape>& out, const tile::Softmax<1>& softmax) {
  bool bad = isnan(softmax.sum[0][0]) || isnan(softmax.sum[0][1]);
#pragma unroll
  for (int j = 0; j < kShape.head_dim / 8; ++j) {
#pragma unroll
    for (int e = 0; e < 4; ++e) bad |= isnan(out[0][j][e]);
  }
  return __syncthreads_or(bad) != 0;
}

// All of a block's work; false when one of its results is NaN where the split may be the reason, and nothing was written.
template <ForwardShape kShape, tile::Split kSplit>
__device__ __forceinline__ bool forward_rows(const ForwardArguments& a, const Terms& terms, unsigned char* shared) {
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int warp_row = thread / 32 % kShape.row_warps * 16;
  const int group = thread / 32 / kShape.row_warps;

  ForwardBlock block(a, kShape.rows());
  ptx::wait_for_former();
  block.locate(a);
  const int first_query = block.query(a, 0);
  if (a.packed && first_query >= block.queries && a.splits == 1) return true;  // rows of the next sequence, or of none
  const tile::Visible visible(block.sequence, a.window_left, a.window_right);

  // Tiles of keys that some row sees, of this split.
  int first = 0;
  int last = 0;
  if (first_query < block.queries) {
    constexpr int kKeys = kShape.keys_of_warp();
    first = visible.begin(first_query) / kKeys;
    last = (visible.end(min(block.query(a, block.rows - 1), block.queries - 1)) + kKeys - 1) / kKeys;
    if (a.splits > 1) {
      const int each = (max(last - first, 0) + a.splits - 1) / a.splits;
      first += each * block.split;
      last = min(last, first + each);
    }
  }

  const std::uint32_t query_tile = ptx::shared_address(shared);
  if (first < last) load_float_queries<kShape>(query_tile, a, block, thread);
  __syncthreads();
  Outputs<kShape> out;
  tile::Softmax<1> softmax;
  attend<kShape, kSplit>(out, softmax, a, terms, block, visible, query_tile, first, last);
  if (kSplit == tile::Split::three && any_nan<kShape>(out, softmax)) return false;
  ptx::let_dependents_start();

#pragma unroll
  for (int h = 0; h < 2; ++h) softmax.sum[0][h] = tile::row_sum(softmax.sum[0][h]);
  const float factor = a.plain ? a.factor : tile::kLog2E;
  if constexpr (kShape.key_warps > 1) {
    join_key_warps<kShape>(softmax, out, reinterpret_cast<float*>(shared), factor, group, warp_row, lane);
  }
  __syncthreads();  // no tile lies there any more
  auto* const rows = reinterpret_cast<RowEnd*>(shared);
  if (group == 0) publish<kShape>(softmax, rows, warp_row, lane);
  __syncthreads();
  finish_rows<kShape>(rows, a, block, factor / tile::kLog2E, a.splits > 1, thread);
  __syncthreads();
  if (group == 0) {
    normalise<kShape>(out, rows, block, warp_row, lane);
    store_float_outputs<kShape>(out, a, block, warp_row, lane);
  }
  return true;
}

// Apart, so that what is rare takes no registers from what is not.
template <ForwardShape kShape>
__device__ __noinline__ void forward_rows_carefully(const ForwardArguments& a, const Terms& terms, unsigned char* shared) {
  forward_rows<kShape, tile::Split::careful>(a, terms, shared);
}

template <int kClass, int kUse, bool kTf32>
__global__ void __launch_bounds__(kFloatShapes[kClass][kUse].threads(), kFloatShapes[kClass][kUse].blocks)
    forward_f32(const __grid_constant__ ForwardArguments a, const __grid_constant__ core::Problem p,
                const __grid_constant__ core::Buffers buffers) {
  constexpr ForwardShape kShape = kFloatShapes[kClass][kUse];
  extern __shared__ __align__(1024) unsigned char shared[];
  const Terms terms{p, buffers};
  if constexpr (kTf32) {
    forward_rows<kShape, tile::Split::none>(a, terms, shared);
  } else {
    // The fast split makes NaN of infinities, which is no reason to look at every number.
    if (!forward_rows<kShape, tile::Split::three>(a, terms, shared)) forward_rows_carefully<kShape>(a, terms, shared);
  }
}

}  // namespace dhyan::cuda::portable

// SPDX-License-Identifier: Apache-2.0
// Backward by mma.sync for f32, as TF32 in three products or in one. One kernel computes one of three gradients; what it adds
// up stays in registers, the same bits in every run. A warp has 16 rows of its own, and the other side's rows stream by:
//   value: rows keys.    scores = K Q^T                    dV += weights dO
//   key:   rows keys.    gradients = V dO^T, scores = K Q^T, dK += dscores Q
//   query: rows queries. gradients = dO V^T, scores = Q K^T, dQ += dscores K
#pragma once

#include "cuda/portable/backward_tile.cuh"
#include "cuda/portable/f32_rows.cuh"

namespace dhyan::cuda::portable {

// What the threads of a block agree on.
struct FloatBackwardBlock {
  bool by_keys;
  int b, key_head, first_head, last_head;  // query heads
  int first;                               // of the block's own rows
  core::Sequence sequence;
  int rows, others;  // that the sequence has

  __device__ FloatBackwardBlock(const BackwardArguments& a, int rows_of_block) : by_keys(a.gradient != Gradient::query) {
    const unsigned tiles = static_cast<unsigned>(by_keys ? a.key_tiles : a.query_tiles);
    const unsigned heads = static_cast<unsigned>(by_keys ? a.p.key_heads : a.p.query_heads);
    const int tile = static_cast<int>(blockIdx.x % tiles);
    const int head = static_cast<int>(blockIdx.x / tiles % heads);
    b = static_cast<int>(blockIdx.x / tiles / heads);
    first = (by_keys ? tile : a.query_tiles - 1 - tile) * rows_of_block;  // most work first under a causal mask
    key_head = by_keys ? head : head / a.group;
    first_head = by_keys ? head * a.group : head;
    last_head = by_keys ? first_head + a.group : head + 1;
    sequence = core::sequence(a.p, a.buffers, b);
    rows = static_cast<int>(by_keys ? sequence.key_count : sequence.query_count);
    others = static_cast<int>(by_keys ? sequence.query_count : sequence.key_count);
  }
};

// Rows of one of the four inputs.
__device__ __forceinline__ FloatRows float_rows_of(const core::Operand& x, const void* data, const FloatBackwardBlock& block,
                                                   bool queries, int head, int first, std::int64_t width) {
  const std::int64_t token = (queries ? block.sequence.query_begin : block.sequence.key_begin) + first;
  const auto count = static_cast<int>(queries ? block.sequence.query_count : block.sequence.key_count) - first;
  const float* from = static_cast<const float*>(data) + block.b * x.strides[0] + token * x.strides[1] + head * x.strides[2];
  return {from, x.strides[1], count, static_cast<int>(width)};
}

// Scores become weights, or gradients of scores where gradients of weights are given. Rows and columns are positions.
template <int kColumns>
__device__ __forceinline__ void weigh_floats(tile::Sums<1, kColumns>& scores, const tile::Sums<1, kColumns>& gradients,
                                             bool want_weights, const BackwardArguments& a, const FloatBackwardBlock& block,
                                             const tile::Visible& visible, int head, int first_row, int first_column) {
  const std::int64_t base = a.first_row(block.b, head, block.sequence.query_begin);
#pragma unroll
  for (int j = 0; j < kColumns / 8; ++j) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int row = first_row + e / 2 * 8;
      const int column = first_column + 8 * j + e % 2;
      const int t = block.by_keys ? column : row;
      const int s = block.by_keys ? row : column;
      float& x = scores[0][j][e];
      if (t >= block.sequence.query_count || s < visible.begin(t) || s >= visible.end(t)) {
        x = 0;
        continue;
      }
      const float lse = a.lse[base + t];
      const float delta = want_weights ? 0 : a.delta[base + t];
      if (a.plain) {
        const float exact = ptx::exp2(x * a.factor - lse);
        x = want_weights ? exact : exact * (gradients[0][j][e] - delta);
      } else {
        const tile::ScoreRow score_row(a.p, a.buffers, block.b, head, t, block.sequence.shift);
        const Weight w = weight(a, score_row, lse, delta, x, gradients[0][j][e], s);
        x = want_weights ? w.kept : w.score;
      }
    }
  }
}

template <int kClass, bool kTf32>
__global__ void __launch_bounds__(kFloatBackwardShapes[kClass].threads(), kFloatBackwardShapes[kClass].blocks)
    backward_f32(const __grid_constant__ BackwardArguments a) {
  constexpr FloatBackwardShape kShape = kFloatBackwardShapes[kClass];
  constexpr int kHead = kShape.head_dim;
  constexpr int kThreads = kShape.threads();
  constexpr int kStream = kShape.stream;
  constexpr tile::Split kSplit = kTf32 ? tile::Split::none : tile::Split::three;
  using Tile = tile::FloatTile<kHead>;
  extern __shared__ __align__(1024) unsigned char shared[];
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int warp_row = thread / 32 * 16;
  const core::Problem& p = a.p;
  const FloatBackwardBlock block(a, kShape.rows());
  const int held = block.rows - block.first;
  if (p.packed && held <= 0) return;  // rows of the next sequence, or of none
  const tile::Visible visible(p, block.sequence);
  const bool values = a.gradient == Gradient::value;

  // The other side's rows that some of the block's see.
  int begin = 0;
  int end = 0;
  if (held > 0) {
    const int last = block.first + min(held, kShape.rows());
    if (block.by_keys) {
      const core::KeyRange queries = core::visible_queries(p, block.sequence, block.first, last);
      begin = static_cast<int>(queries.begin);
      end = static_cast<int>(queries.end);
    } else {
      begin = visible.begin(block.first);
      end = visible.end(last - 1);
    }
  }

  const std::uint32_t score_tile =
      ptx::shared_address(shared);  // the block's rows that make scores, those of gradients, the others
  const std::uint32_t gradient_tile = score_tile + Tile::bytes(kShape.rows());
  const std::uint32_t stream_tile = gradient_tile + Tile::bytes(kShape.rows());
  const std::uint32_t left = warp_row * Tile::kPitch + tile::rows_first<2 * kHead>(lane);
  const std::uint32_t right = stream_tile + tile::columns_first<2 * kHead>(lane);
  const tile::ValueLane values_lane = tile::value_lane<kHead>(stream_tile, lane);
  const auto load_side = [&]<int kRows>(std::uint32_t to, bool scores, bool queries, int head, int first) {
    const core::Operand& x = scores ? (queries ? p.query : p.key) : (queries ? p.grad_out : p.value);
    const void* data = scores ? (queries ? a.buffers.query : a.buffers.key) : (queries ? a.buffers.grad_out : a.buffers.value);
    const std::int64_t width = scores ? p.head_dim : p.value_head_dim;
    load_float_rows<kRows, kHead, kThreads>(to, float_rows_of(x, data, block, queries, head, first, width), a.aligned, thread);
    ptx::cp_async_commit();
  };
  const auto stream = [&](bool scores, int head, int first) {
    load_side.template operator()<kStream>(stream_tile, scores, block.by_keys, block.by_keys ? head : block.key_head, first);
  };

  tile::Sums<1, kHead> sums;
  tile::clear<1, kHead>(sums);
  if (begin < end) {
    const int own_head = block.by_keys ? block.key_head : block.first_head;
    load_side.template operator()<kShape.rows()>(score_tile, true, !block.by_keys, own_head, block.first);
    load_side.template operator()<kShape.rows()>(gradient_tile, false, !block.by_keys, own_head, block.first);
    ptx::cp_async_wait<0>();
    __syncthreads();
    if (a.early != 1) {
      float* const own = reinterpret_cast<float*>(shared);
      for (int i = thread; i < kShape.rows() * kHead; i += kThreads) own[i] *= a.early;
      __syncthreads();
    }
  }
  const float keep[1][2] = {{1, 1}};
  for (int head = block.first_head; head < block.last_head; ++head) {
    for (int first = begin; first < end; first += kStream) {
      tile::Sums<1, kStream> scores, gradients;
      stream(values, head, first);
      ptx::cp_async_wait<0>();
      __syncthreads();
      if (values) {
        tile::multiply_float_rows<kSplit, kHead, kStream>(scores, score_tile + left, right);
      } else {
        tile::multiply_float_rows<kSplit, kHead, kStream>(gradients, gradient_tile + left, right);
      }
      __syncthreads();
      stream(!values, head, first);
      ptx::cp_async_wait<0>();
      __syncthreads();
      if (!values) tile::multiply_float_rows<kSplit, kHead, kStream>(scores, score_tile + left, right);
      weigh_floats<kStream>(scores, gradients, values, a, block, visible, head, block.first + warp_row + lane / 4,
                            first + lane % 4 * 2);
      tile::multiply_float_weights<kSplit, kStream, kHead>(sums, keep, scores, values_lane);
      __syncthreads();
    }
  }

  // A lane has eight columns in a row of every 32.
  const core::Operand& x = values ? p.grad_value : block.by_keys ? p.grad_key : p.grad_query;
  auto* const data = static_cast<float*>(values          ? a.buffers.grad_value
                                         : block.by_keys ? a.buffers.grad_key
                                                         : a.buffers.grad_query);
  const std::int64_t own_begin = block.by_keys ? block.sequence.key_begin : block.sequence.query_begin;
  const auto width = static_cast<int>(values ? p.value_head_dim : p.head_dim);
  const auto extent = static_cast<int>(block.by_keys ? p.key_length : p.query_length);
  const int written = (p.packed ? block.rows : extent) - block.first;
  const float factor = values ? 1 : a.scale;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = warp_row + lane / 4 + 8 * h;
    if (row >= written) continue;
    float* const to = data + block.b * x.strides[0] + (own_begin + block.first + row) * x.strides[1] +
                      (block.by_keys ? block.key_head : block.first_head) * x.strides[2];
#pragma unroll
    for (int n = 0; n < kHead / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int column = tile::output_column(lane, n, e);
        if (column < width) to[column] = sums[0][n][2 * h + e] * factor;
      }
    }
  }
}

}  // namespace dhyan::cuda::portable

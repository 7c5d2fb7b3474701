// SPDX-License-Identifier: Apache-2.0
// From sums to outputs and lse.
#pragma once

#include "cuda/portable/forward_block.cuh"
#include "cuda/tile/softmax.cuh"

namespace dhyan::cuda::portable {

// Warps along the keys have each seen a part of them: the first one gets the whole.
template <ForwardShape kShape>
__device__ __forceinline__ void join_key_warps(tile::Softmax<kShape.row_tiles>& softmax, Outputs<kShape>& out, float* shared,
                                               float factor, int key_warp, int warp_row, int lane) {
  constexpr int kWidth = kShape.head_dim + 2;  // highest, sum, outputs
  __syncthreads();                             // no tile lies there any more
#pragma unroll
  for (int i = 0; i < kShape.row_tiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float* to = shared + (key_warp * kShape.rows() + row_of_lane(warp_row, lane, i, h)) * kWidth;
      if (lane % 4 == 0) *reinterpret_cast<float2*>(to) = make_float2(softmax.highest[i][h], softmax.sum[i][h]);
      if (key_warp == 0) continue;
#pragma unroll
      for (int j = 0; j < kShape.head_dim / 8; ++j) {
        *reinterpret_cast<float2*>(to + 2 + 8 * j + lane % 4 * 2) = make_float2(out[i][j][2 * h], out[i][j][2 * h + 1]);
      }
    }
  }
  __syncthreads();
  if (key_warp != 0) return;
#pragma unroll
  for (int i = 0; i < kShape.row_tiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float* parts[kShape.key_warps];
      float most = softmax.highest[i][h];
      for (int k = 0; k < kShape.key_warps; ++k) {
        parts[k] = shared + (k * kShape.rows() + row_of_lane(warp_row, lane, i, h)) * kWidth;
        most = fmaxf(most, parts[k][0]);
      }
      const float reference = most == -INFINITY ? 0 : most;
      const float own = ptx::exp2((softmax.highest[i][h] - reference) * factor);
      float sum = softmax.sum[i][h] * own;
#pragma unroll
      for (int j = 0; j < kShape.head_dim / 8; ++j) {
        out[i][j][2 * h] *= own;
        out[i][j][2 * h + 1] *= own;
      }
#pragma unroll
      for (int k = 1; k < kShape.key_warps; ++k) {
        const float shrink = ptx::exp2((parts[k][0] - reference) * factor);
        sum += parts[k][1] * shrink;
#pragma unroll
        for (int j = 0; j < kShape.head_dim / 8; ++j) {
          const float2 x = *reinterpret_cast<const float2*>(parts[k] + 2 + 8 * j + lane % 4 * 2);
          out[i][j][2 * h] += x.x * shrink;
          out[i][j][2 * h + 1] += x.y * shrink;
        }
      }
      softmax.highest[i][h] = most;
      softmax.sum[i][h] = sum;
    }
  }
}

// What a row's outputs still need.
struct RowEnd {
  float highest, sum;  // of its softmax; then highest holds the factor of its outputs
};

template <ForwardShape kShape>
__device__ __forceinline__ void publish(const tile::Softmax<kShape.row_tiles>& softmax, RowEnd* rows, int warp_row, int lane) {
#pragma unroll
  for (int i = 0; i < kShape.row_tiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (lane % 4 == 0) rows[row_of_lane(warp_row, lane, i, h)] = {softmax.highest[i][h], softmax.sum[i][h]};
    }
  }
}

// Softmax sums become lse, written, and factors. One thread per row.
template <ForwardShape kShape>
__device__ __forceinline__ void finish_rows(RowEnd* rows, const ForwardArguments& a, const ForwardBlock& block, float natural,
                                            bool split, int thread) {
#pragma unroll 1
  for (int r = thread; r < block.rows; r += kShape.threads()) {
    const int t = block.query(a, r);
    const int n = block.head(a, r);
    const float sum = rows[r].sum;
    const bool held = t < block.queries;
    float lse = -INFINITY;
    float factor = 0;
    if (held && sum != 0) {
      lse = rows[r].highest * natural + logf(sum);
      factor = a.kept / sum;
    }
    if (held && !split && a.sink != nullptr) {
      const float sink = a.sink[n * a.sink_stride];
      const float most = fmaxf(lse, sink);
      if (most != -INFINITY) {
        const float total = most + logf(expf(lse - most) + expf(sink - most));
        factor *= expf(lse - total);
        lse = total;
      }
    }
    rows[r].highest = factor;
    if (split) {
      a.part_lse[part_row(a, block, r)] = lse;
    } else if (a.lse != nullptr && (held || !a.packed)) {
      const RowStrides& strides = a.lse_strides;
      a.lse[block.b * strides.batch + n * strides.head + (block.sequence.query_begin + t) * strides.token] = lse;
    }
  }
}

template <ForwardShape kShape>
__device__ __forceinline__ void normalise(Outputs<kShape>& out, const RowEnd* rows, const ForwardBlock& block, int warp_row,
                                          int lane) {
#pragma unroll
  for (int i = 0; i < kShape.row_tiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int r = row_of_lane(warp_row, lane, i, h);
      const float factor = r < block.rows ? rows[r].highest : 0;
#pragma unroll
      for (int j = 0; j < kShape.columns_of_warp() / 8; ++j) {
        out[i][j][2 * h] *= factor;
        out[i][j][2 * h + 1] *= factor;
      }
      if (factor == 0) {  // weights of 0 may have met values that are not finite
#pragma unroll
        for (int j = 0; j < kShape.columns_of_warp() / 8; ++j) out[i][j][2 * h] = out[i][j][2 * h + 1] = 0;
      }
    }
  }
}

template <ForwardShape kShape>
__device__ __forceinline__ void store_part(const Outputs<kShape>& out, const ForwardArguments& a, const ForwardBlock& block,
                                           int first_column, int warp_row, int lane) {
  const int width = a.value_head_dim;
#pragma unroll
  for (int i = 0; i < kShape.row_tiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int r = row_of_lane(warp_row, lane, i, h);
      if (r >= block.rows) continue;
      float* to = a.part_out + part_row(a, block, r) * width;
#pragma unroll
      for (int j = 0; j < kShape.columns_of_warp() / 8; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int column = first_column + 8 * j + lane % 4 * 2 + e;
          if (column < width) to[column] = out[i][j][2 * h + e];
        }
      }
    }
  }
}

}  // namespace dhyan::cuda::portable

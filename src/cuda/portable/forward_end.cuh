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
  __syncthreads();                             // keys and values lie there no more
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

// Softmax sums become lse (written), outputs are normalised.
template <ForwardShape kShape>
__device__ __forceinline__ void normalise(const tile::Softmax<kShape.row_tiles>& softmax, Outputs<kShape>& out,
                                          const ForwardArguments& a, const ForwardBlock& block, float natural, bool writes,
                                          int warp_row, int lane) {
#pragma unroll
  for (int i = 0; i < kShape.row_tiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int r = row_of_lane(warp_row, lane, i, h);
      const int t = block.query(a, r);
      const int n = block.head(a, r);
      const float sum = softmax.sum[i][h];
      const bool held = r < block.rows && t < block.queries;
      float lse = -INFINITY;
      float scale = 0;
      if (held && sum != 0) {
        lse = softmax.highest[i][h] * natural + logf(sum);
        scale = a.kept / sum;
      }
      if (held && a.splits == 1 && a.p.sink.present()) {
        const float sink = static_cast<const float*>(a.buffers.sink)[n * a.p.sink.strides[0]];
        const float most = fmaxf(lse, sink);
        if (most != -INFINITY) {
          const float total = most + logf(expf(lse - most) + expf(sink - most));
          scale *= expf(lse - total);
          lse = total;
        }
      }
#pragma unroll
      for (int j = 0; j < kShape.columns_of_warp() / 8; ++j) {
        out[i][j][2 * h] = scale == 0 ? 0 : out[i][j][2 * h] * scale;
        out[i][j][2 * h + 1] = scale == 0 ? 0 : out[i][j][2 * h + 1] * scale;
      }
      if (lane % 4 != 0 || !writes || r >= block.rows) continue;
      if (a.splits > 1) {
        a.part_lse[((std::int64_t{block.split} * a.p.batch + block.b) * a.p.query_heads + n) * a.p.query_length + t] = lse;
      } else if (a.p.lse.present() && (held || !a.p.packed)) {
        const auto& strides = a.p.lse.strides;
        static_cast<float*>(
            a.buffers.lse)[block.b * strides[0] + n * strides[1] + (block.sequence.query_begin + t) * strides[2]] = lse;
      }
    }
  }
}

template <ForwardShape kShape>
__device__ __forceinline__ void store_part(const Outputs<kShape>& out, const ForwardArguments& a, const ForwardBlock& block,
                                           int first_column, int warp_row, int lane) {
  const int width = static_cast<int>(a.p.value_head_dim);
#pragma unroll
  for (int i = 0; i < kShape.row_tiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int r = row_of_lane(warp_row, lane, i, h);
      if (r >= block.rows) continue;
      const std::int64_t row =
          ((std::int64_t{block.split} * a.p.batch + block.b) * a.p.query_heads + block.head(a, r)) * a.p.query_length +
          block.query(a, r);
#pragma unroll
      for (int j = 0; j < kShape.columns_of_warp() / 8; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int column = first_column + 8 * j + lane % 4 * 2 + e;
          if (column < width) a.part_out[row * width + column] = out[i][j][2 * h + e];
        }
      }
    }
  }
}

}  // namespace dhyan::cuda::portable

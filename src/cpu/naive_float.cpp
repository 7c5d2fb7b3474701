// SPDX-License-Identifier: Apache-2.0
// Naive steps for f32, f16 and bf16: products by the f32 engine.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/convert.hpp"
#include "cpu/engine.hpp"
#include "cpu/logits.hpp"
#include "cpu/naive_steps.hpp"

namespace dhyan::cpu::naive {
namespace {

constexpr float negative_infinity = -std::numeric_limits<float>::infinity();

std::size_t round_up(std::size_t x) { return (x + 63) / 64 * 64; }

int widest(const core::Problem& p) { return static_cast<int>(std::max(p.head_dim, p.value_head_dim)); }

std::size_t right_bytes(const core::Problem& p) {
  const Engine& engine = f32_engine();
  return round_up(std::max(engine.right_bytes(widest(p), kKeyBlock), engine.right_bytes(kKeyBlock, widest(p))));
}

std::size_t left_bytes(const core::Problem& p) {
  return round_up(f32_engine().left_bytes(kKeyBlock, std::max(widest(p), kKeyBlock)));
}

// Row `row` and what follows.
Source source(const Rows& rows, std::int64_t row, float factor = 1) {
  return {core::advance(rows.data, rows.dtype, row * rows.stride), rows.dtype, rows.stride, factor};
}

void rows_by_rows(const Rows& a, double factor, const Rows& b, int m, int n, int k, float* c, std::int64_t stride,
                  const Storage& storage) {
  const Engine& engine = f32_engine();
  engine.right_transposed(source(b, 0), k, n, storage.right);
  for (int r = 0; r < m; r += kRowBlock) {
    const int rows = std::min(kRowBlock, m - r);
    const Left left = engine.left(source(a, r, static_cast<float>(factor)), rows, k, storage.left);
    engine.multiply(left, storage.right, c + r * stride, stride, rows, n, k, false);
  }
}

void weights_by_rows(const float* weights, std::int64_t weights_stride, const Rows& b, int m, int n, int k, float* c,
                     std::int64_t stride, const Storage& storage) {
  const Engine& engine = f32_engine();
  if (k == 0) std::fill(c, c + m * stride, 0.0f);
  for (int i = 0; i < k; i += kKeyBlock) {
    const int depth = std::min(kKeyBlock, k - i);
    engine.right(source(b, i), depth, n, storage.right);
    const Left left = engine.left({weights + i, DHYAN_F32, weights_stride}, m, depth, storage.left);
    engine.multiply(left, storage.right, c, stride, m, n, depth, i > 0);
  }
}

void weights_transposed_by_rows(const float* weights, std::int64_t weights_stride, const Rows& b, int m, int n, int k, float* c,
                                std::int64_t stride, const Storage& storage) {
  const Engine& engine = f32_engine();
  for (int i = 0; i < k; i += kKeyBlock) {
    const int depth = std::min(kKeyBlock, k - i);
    engine.right(source(b, i), depth, n, storage.right);
    const Left left = engine.left_transposed({weights + i * weights_stride, DHYAN_F32, weights_stride}, m, depth, storage.left);
    engine.multiply(left, storage.right, c, stride, m, n, depth, true);
  }
}

float rounded(float x, dhyan_dtype dtype) {
  if (dtype == DHYAN_BF16) return core::to_float(core::to_bfloat16(x));
  if (dtype == DHYAN_F16) return core::to_float(core::to_float16(x));
  return x;
}

Tile tile_of(const Block& block, int row) {
  return {block.problem,
          block.buffers,
          block.sequence,
          block.b,
          block.n,
          block.t + row,
          0,
          1,
          1,
          static_cast<int>(block.sequence.key_count)};
}

void softmax(const Block& block, float* scores, std::int64_t stride, float* lse) {
  const core::Problem& p = block.problem;
  const std::int64_t keys = block.sequence.key_count;
  const float sink = p.sink.present()
                         ? static_cast<float>(core::load(block.buffers.sink, p.sink.dtype, block.n * p.sink.strides[0]))
                         : negative_infinity;
  for (int r = 0; r < block.rows; ++r) {
    float* row = scores + r * stride;
    finish_logits(tile_of(block, r), row, stride, nullptr);
    float highest = sink;
    for (std::int64_t s = 0; s < keys; ++s) highest = row[s] > highest || std::isnan(row[s]) ? row[s] : highest;
    if (highest == negative_infinity) {
      std::fill(row, row + keys, 0.0f);
      lse[r] = negative_infinity;
      continue;
    }
    float sum = std::exp(sink - highest);
    for (std::int64_t s = 0; s < keys; ++s) sum += row[s] = std::exp(row[s] - highest);
    lse[r] = highest + std::log(sum);
    for (std::int64_t s = 0; s < keys; ++s) row[s] /= sum;
    apply_dropout(tile_of(block, r), row, stride);
    for (std::int64_t s = 0; s < keys; ++s) row[s] = rounded(row[s], p.dtype);
  }
}

void gradient(const Block& block, float* scores, float* gradients, float* logits, std::int64_t stride, const float* lse,
              const float* delta, const Storage& storage) {
  const core::Problem& p = block.problem;
  const std::int64_t keys = block.sequence.key_count;
  auto* slope = static_cast<float*>(storage.rows[0]);
  auto* keep = static_cast<float*>(storage.rows[1]);
  std::fill(slope, slope + keys, 1.0f);
  for (int r = 0; r < block.rows; ++r) {
    float* weight = scores + r * stride;
    float* gradient = gradients + r * stride;
    finish_logits(tile_of(block, r), weight, stride, slope);
    std::fill(keep, keep + keys, 1.0f);
    apply_dropout(tile_of(block, r), keep, stride);
    for (std::int64_t s = 0; s < keys; ++s) {
      const bool blank = lse[r] == negative_infinity || weight[s] == negative_infinity;
      const float exact = blank ? 0 : std::exp(weight[s] - lse[r]);
      const float grad_logit = blank ? 0 : exact * (gradient[s] * keep[s] - delta[r]);
      weight[s] = rounded(exact * keep[s], p.dtype);
      gradient[s] = blank ? 0 : rounded(grad_logit * slope[s], p.dtype);
      if (logits) logits[r * stride + s] = grad_logit;
    }
  }
}

}  // namespace

const Steps<float> float_steps{right_bytes, left_bytes, rows_by_rows, weights_by_rows, weights_transposed_by_rows,
                               softmax,     gradient};

}  // namespace dhyan::cpu::naive

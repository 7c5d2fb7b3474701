// SPDX-License-Identifier: Apache-2.0
// Naive steps for f32, f16 and bf16: products by the f32 engine.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "core/convert.hpp"
#include "cpu/engine.hpp"
#include "cpu/fused_backward_rows.hpp"
#include "cpu/logits.hpp"
#include "cpu/naive_steps.hpp"
#include "cpu/sizes.hpp"
#include "cpu/softmax.hpp"
#include "cpu/target.hpp"

namespace dhyan::cpu::naive {
namespace {

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

const SoftmaxKernels& softmax_kernels() {
  static const SoftmaxKernels& kernels = softmax_kernels_on(highway_targets());
  return kernels;
}

void rows_by_rows(const Rows& a, double factor, const Rows& b, int m, int n, int k, float* c, std::int64_t stride,
                  const Storage& storage) {
  const Engine& engine = f32_engine();
  const double late = late_scale(factor);
  engine.right_transposed(source(b, 0), k, n, storage.right);
  for (int r = 0; r < m; r += kRowBlock) {
    const int rows = std::min(kRowBlock, m - r);
    const Left left = engine.left(source(a, r, static_cast<float>(factor / late)), rows, k, storage.left);
    engine.multiply(left, storage.right, c + r * stride, stride, rows, n, k, false);
  }
  if (late != 1) softmax_kernels().scale(c, stride, m, n, static_cast<float>(late));
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

WeightForm form_of(dhyan_dtype dtype) {
  if (dtype == DHYAN_F16) return WeightForm::f32_f16;
  return dtype == DHYAN_BF16 ? WeightForm::f32_bf16 : WeightForm::f32;
}

void softmax(const Block& block, float* scores, std::int64_t stride, float* lse) {
  constexpr auto log2e = static_cast<float>(std::numbers::log2e);
  const core::Problem& p = block.problem;
  const SoftmaxKernels& kernels = softmax_kernels();
  const auto keys = static_cast<int>(block.sequence.key_count);
  const WeightForm form = form_of(p.dtype);
  const double sink = p.sink.present() ? core::load(block.buffers.sink, p.sink.dtype, block.n * p.sink.strides[0])
                                       : -std::numeric_limits<double>::infinity();
  for (int r = 0; r < block.rows; ++r) {
    float* row = scores + r * stride;
    const Tile tile = tile_of(block, r);
    finish_logits(tile, row, stride, nullptr);
    float highest = -std::numeric_limits<float>::infinity(), sum = 0, rescale;
    kernels.tile({row, stride, 1, keys, WeightForm::f32, nullptr, 0}, log2e, &highest, &sum, &rescale);
    const double of_keys = softmax_lse(highest, sum, log2e);
    const double of_all = add_exponentials(of_keys, sink);
    lse[r] = static_cast<float>(of_all);
    if (sum == 0) continue;
    kernels.scale(row, stride, 1, keys, static_cast<float>(std::exp(of_keys - of_all) / static_cast<double>(sum)));
    if (p.has_dropout()) apply_dropout(tile, row, stride);
    if (form != WeightForm::f32) kernels.round({row, stride, 1, keys, form, nullptr, 0});
  }
}

void gradient(const Block& block, float* scores, float* gradients, float* logits, std::int64_t stride, const float* lse,
              const float* delta, const Storage& storage) {
  const core::Problem& p = block.problem;
  auto* slope = p.softcap > 0 ? static_cast<float*>(storage.rows[0]) : nullptr;
  auto* keep = p.has_dropout() ? static_cast<float*>(storage.rows[1]) : nullptr;
  const BackwardRows& kernels = backward_rows();
  for (int r = 0; r < block.rows; ++r) {
    const Tile tile = tile_of(block, r);
    const core::KeyRange visible = core::visible_keys(p, block.sequence, block.t + r);
    const auto begin = static_cast<std::int32_t>(visible.begin);
    const auto end = static_cast<std::int32_t>(visible.end);
    const float row_lse = lse[r] == -std::numeric_limits<float>::infinity() ? -lse[r] : lse[r];
    float* row = scores + r * stride;
    finish_logits(tile, row, stride, slope);
    if (keep) {
      std::fill(keep, keep + tile.columns, 1.0f);
      apply_dropout(tile, keep, stride);
    }
    kernels.score_gradient({.scores = row,
                            .gradients = gradients + r * stride,
                            .slope = slope,
                            .keep = keep,
                            .logits = logits ? logits + r * stride : nullptr,
                            .stride = stride,
                            .rows = 1,
                            .columns = tile.columns,
                            .lse = &row_lse,
                            .delta = delta + r,
                            .begin = &begin,
                            .end = &end,
                            .factor = 1,
                            .rounding = p.dtype});
  }
}

void write(const float* row, double factor, int columns, dhyan_dtype dtype, void* out) {
  softmax_kernels().write(row, static_cast<float>(factor), columns, dtype, out);
}

}  // namespace

const Steps<float> float_steps{right_bytes, left_bytes, rows_by_rows, weights_by_rows, weights_transposed_by_rows,
                               softmax,     gradient,   write};

}  // namespace dhyan::cpu::naive

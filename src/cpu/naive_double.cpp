// SPDX-License-Identifier: Apache-2.0
// Naive steps for f64.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/convert.hpp"
#include "core/philox.hpp"
#include "cpu/naive_steps.hpp"

namespace dhyan::cpu::naive {
namespace {

constexpr double negative_infinity = -std::numeric_limits<double>::infinity();

// C[m][n] += A[m][k] B[k][n]; four rows of C at a time share what is read of B.
void multiply(const double* a, std::int64_t row_stride, std::int64_t depth_stride, const double* b, std::int64_t b_stride,
              double* c, std::int64_t c_stride, int m, int n, int k) {
  int r = 0;
  for (; r + 4 <= m; r += 4) {
    double* const c0 = c + r * c_stride;
    double* const c1 = c0 + c_stride;
    double* const c2 = c1 + c_stride;
    double* const c3 = c2 + c_stride;
    for (int i = 0; i < k; ++i) {
      const double* at = a + r * row_stride + i * depth_stride;
      const double a0 = at[0], a1 = at[row_stride], a2 = at[2 * row_stride], a3 = at[3 * row_stride];
      const double* row = b + i * b_stride;
      for (int j = 0; j < n; ++j) {
        c0[j] += a0 * row[j];
        c1[j] += a1 * row[j];
        c2[j] += a2 * row[j];
        c3[j] += a3 * row[j];
      }
    }
  }
  for (; r < m; ++r) {
    for (int i = 0; i < k; ++i) {
      const double x = a[r * row_stride + i * depth_stride];
      for (int j = 0; j < n; ++j) c[r * c_stride + j] += x * b[i * b_stride + j];
    }
  }
}

void clear(double* c, std::int64_t stride, int m, int n) {
  for (int r = 0; r < m; ++r) std::fill(c + r * stride, c + r * stride + n, 0.0);
}

const double* data_of(const Rows& rows) { return static_cast<const double*>(rows.data); }

std::size_t right_bytes(const core::Problem& p) {
  return sizeof(double) * static_cast<std::size_t>(std::max(p.head_dim, p.value_head_dim)) * kKeyBlock;
}
std::size_t left_bytes(const core::Problem&) { return 0; }

void rows_by_rows(const Rows& a, double factor, const Rows& b, int m, int n, int k, double* c, std::int64_t stride,
                  const Storage& storage) {
  auto* transposed = static_cast<double*>(storage.right);
  clear(c, stride, m, n);
  for (int first = 0; first < n; first += kKeyBlock) {
    const int columns = std::min(kKeyBlock, n - first);
    for (int j = 0; j < columns; ++j) {
      for (int i = 0; i < k; ++i) transposed[i * columns + j] = data_of(b)[(first + j) * b.stride + i] * factor;
    }
    multiply(data_of(a), a.stride, 1, transposed, columns, c + first, stride, m, columns, k);
  }
}

void weights_by_rows(const double* weights, std::int64_t weights_stride, const Rows& b, int m, int n, int k, double* c,
                     std::int64_t stride, const Storage&) {
  clear(c, stride, m, n);
  multiply(weights, weights_stride, 1, data_of(b), b.stride, c, stride, m, n, k);
}

void weights_transposed_by_rows(const double* weights, std::int64_t weights_stride, const Rows& b, int m, int n, int k,
                                double* c, std::int64_t stride, const Storage&) {
  multiply(weights, 1, weights_stride, data_of(b), b.stride, c, stride, m, n, k);
}

// Logits of one row in place, -inf where hidden; `slope`, when given, receives d logit / d score.
void finish_row(const Block& block, std::int64_t t, double* row, double* slope) {
  const core::Problem& p = block.problem;
  const core::KeyRange visible = core::visible_keys(p, block.sequence, t);
  const auto base = [&](const core::Operand& x) { return block.b * x.strides[0] + block.n * x.strides[1] + t * x.strides[2]; };
  double alibi = 0;
  if (p.alibi_slopes.present()) {
    const auto& strides = p.alibi_slopes.strides;
    alibi = core::load(block.buffers.alibi_slopes, p.alibi_slopes.dtype, block.b * strides[0] + block.n * strides[1]);
  }
  const auto* mask = static_cast<const std::uint8_t*>(block.buffers.mask);
  for (std::int64_t s = 0; s < block.sequence.key_count; ++s) {
    double& x = row[s];
    if (slope) slope[s] = 1;
    if (s < visible.begin || s >= visible.end || (p.mask.present() && !mask[base(p.mask) + s * p.mask.strides[3]])) {
      x = negative_infinity;
      continue;
    }
    if (p.softcap > 0) {
      const double tanh = std::tanh(x / p.softcap);
      if (slope) slope[s] = (1 - tanh) * (1 + tanh);
      x = p.softcap * tanh;
    }
    if (p.bias.present()) x += core::load(block.buffers.bias, p.bias.dtype, base(p.bias) + s * p.bias.strides[3]);
    if (p.alibi_slopes.present()) x -= alibi * static_cast<double>(std::abs(s - t - block.sequence.shift));
  }
}

double dropout_factor(const Block& block, std::int64_t t, std::int64_t s) {
  if (!block.problem.has_dropout()) return 1;
  return core::keeps(block.problem, block.b, block.n, t, s) ? 1 / (1 - block.problem.dropout.probability) : 0;
}

void softmax(const Block& block, double* scores, std::int64_t stride, double* lse) {
  const core::Problem& p = block.problem;
  const std::int64_t keys = block.sequence.key_count;
  const double sink =
      p.sink.present() ? core::load(block.buffers.sink, p.sink.dtype, block.n * p.sink.strides[0]) : negative_infinity;
  for (int r = 0; r < block.rows; ++r) {
    double* row = scores + r * stride;
    finish_row(block, block.t + r, row, nullptr);
    double highest = sink;
    for (std::int64_t s = 0; s < keys; ++s) highest = row[s] > highest || std::isnan(row[s]) ? row[s] : highest;
    if (highest == negative_infinity) {
      std::fill(row, row + keys, 0.0);
      lse[r] = negative_infinity;
      continue;
    }
    double sum = std::exp(sink - highest);
    for (std::int64_t s = 0; s < keys; ++s) sum += row[s] = std::exp(row[s] - highest);
    lse[r] = highest + std::log(sum);
    for (std::int64_t s = 0; s < keys; ++s) row[s] *= dropout_factor(block, block.t + r, s) / sum;
  }
}

void gradient(const Block& block, double* scores, double* gradients, double* logits, std::int64_t stride, const double* lse,
              const double* delta, const Storage& storage) {
  const std::int64_t keys = block.sequence.key_count;
  auto* slope = static_cast<double*>(storage.rows[0]);
  for (int r = 0; r < block.rows; ++r) {
    double* weight = scores + r * stride;
    double* gradient = gradients + r * stride;
    finish_row(block, block.t + r, weight, slope);
    for (std::int64_t s = 0; s < keys; ++s) {
      const bool blank = lse[r] == negative_infinity || weight[s] == negative_infinity;
      const double factor = dropout_factor(block, block.t + r, s);
      const double exact = blank ? 0 : std::exp(weight[s] - lse[r]);
      const double grad_logit = blank ? 0 : exact * (gradient[s] * factor - delta[r]);
      weight[s] = exact * factor;
      gradient[s] = grad_logit * slope[s];
      if (logits) logits[r * stride + s] = grad_logit;
    }
  }
}

void write(const double* row, double factor, int columns, dhyan_dtype dtype, void* out) {
  for (int i = 0; i < columns; ++i) core::store(out, dtype, i, row[i] * factor);
}

}  // namespace

const Steps<double> double_steps{right_bytes, left_bytes, rows_by_rows, weights_by_rows, weights_transposed_by_rows,
                                 softmax,     gradient,   write};

}  // namespace dhyan::cpu::naive

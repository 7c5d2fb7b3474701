// SPDX-License-Identifier: Apache-2.0
#include "reference/rows.hpp"

#include <cmath>

#include "core/philox.hpp"

namespace dhyan::reference {
namespace {

// The key position a query stands on, in global positions.
std::int64_t diagonal(const Query& q) {
  std::int64_t position = q.t + q.problem.query_origin;
  if (q.problem.causal == DHYAN_CAUSAL_BOTTOM_RIGHT) position += q.sequence.key_count - q.sequence.query_count;
  return position;
}

std::int64_t score_offset(const core::Operand& x, const Query& q, std::int64_t s) {
  return q.b * x.strides[0] + q.n * x.strides[1] + q.t * x.strides[2] + s * x.strides[3];
}

}  // namespace

std::vector<double> read_rows(const core::Operand& x, const void* data, std::int64_t b, std::int64_t first, std::int64_t count,
                              std::int64_t head, std::int64_t width) {
  std::vector<double> rows(static_cast<std::size_t>(count * width));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t begin = row_offset(x, b, first + i, head);
    for (std::int64_t h = 0; h < width; ++h)
      rows[static_cast<std::size_t>(i * width + h)] = core::load(data, x.dtype, begin + h);
  }
  return rows;
}

void write_row(const core::Operand& x, void* data, std::int64_t b, std::int64_t token, std::int64_t head, std::int64_t width,
               const double* row) {
  const std::int64_t begin = row_offset(x, b, token, head);
  for (std::int64_t h = 0; h < width; ++h) core::store(data, x.dtype, begin + h, row[h]);
}

void blank_uncovered(const core::Problem& problem, const core::Buffers& buffers, bool queries, const core::Operand& x,
                     void* data, std::int64_t heads, std::int64_t width) {
  const std::vector<double> zeros(static_cast<std::size_t>(width), 0.0);
  core::uncovered_rows(problem, buffers, queries, [&](std::int64_t b, std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      for (std::int64_t head = 0; head < heads; ++head) write_row(x, data, b, token, head, width, zeros.data());
    }
  });
}

double dot(const double* a, const double* b, std::int64_t n) {
  double sums[4] = {0, 0, 0, 0};
  std::int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (int j = 0; j < 4; ++j) sums[j] += a[i + j] * b[i + j];
  }
  double rest = 0;
  for (; i < n; ++i) rest += a[i] * b[i];
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + rest;
}

bool visible(const Query& q, std::int64_t s) {
  const core::Problem& p = q.problem;
  const std::int64_t ahead = s + p.key_origin - diagonal(q);  // how far the key lies past the query
  if (p.causal != DHYAN_CAUSAL_OFF && ahead > 0) return false;
  if (p.window_left >= 0 && -ahead > p.window_left) return false;
  if (p.window_right >= 0 && ahead > p.window_right) return false;
  if (p.mask.present()) return static_cast<const std::uint8_t*>(q.buffers.mask)[score_offset(p.mask, q, s)] != 0;
  return true;
}

Logit logit(const Query& q, std::int64_t s, double score) {
  const core::Problem& p = q.problem;
  Logit result{score, 1.0};
  if (p.softcap > 0) {
    const double tanh = std::tanh(score / p.softcap);
    result = {p.softcap * tanh, 1 - tanh * tanh};
  }
  if (p.bias.present()) result.value += core::load(q.buffers.bias, p.bias.dtype, score_offset(p.bias, q, s));
  if (p.alibi_slopes.present()) {
    const core::Operand& slopes = p.alibi_slopes;
    const double slope = core::load(q.buffers.alibi_slopes, slopes.dtype, q.b * slopes.strides[0] + q.n * slopes.strides[1]);
    result.value -= slope * static_cast<double>(std::abs(s + p.key_origin - diagonal(q)));
  }
  return result;
}

double dropout_factor(const Query& q, std::int64_t s) {
  if (!q.problem.has_dropout()) return 1;
  return core::keeps(q.problem, q.b, q.n, q.t, s) ? 1 / (1 - q.problem.dropout.probability) : 0;
}

}  // namespace dhyan::reference

// SPDX-License-Identifier: Apache-2.0
// With P = exp(logit - lse), D the dropout factors and delta = rowsum(dO o O) - dlse:
//   dV = (P o D)^T dO,  dP = (dO V^T) o D,  dlogit = P o (dP - delta),  dbias = dlogit,  dscore = dlogit o softcap',
//   dQ = scale dscore K,  dK = scale dscore^T Q,  dsink = -sum exp(sink - lse) delta.
#include "reference/backward.hpp"

#include <algorithm>
#include <cmath>

#include "core/parallel.hpp"
#include "reference/rows.hpp"

namespace dhyan::reference {
namespace {

// Sums over the whole problem, in float64.
struct Totals {
  std::vector<double> bias;  // in the bias's own shape
  std::vector<double> sink;  // [B, N]
};

// Where (b, n, t, s) adds up in the bias's own shape.
std::size_t bias_index(const core::Problem& p, const Query& q, std::int64_t s) {
  const std::int64_t position[4] = {q.b, q.n, q.t, s};
  std::int64_t index = 0;
  for (int i = 0; i < 4; ++i) index = index * p.bias_shape[i] + (p.bias_shape[i] == 1 ? 0 : position[i]);
  return static_cast<std::size_t>(index);
}

// All query heads that share one key head: its dK and dV are sums over them.
void backward_group(const core::Problem& p, const core::Buffers& buffers, std::int64_t b, std::int64_t key_head,
                    Totals& totals) {
  const core::Sequence sequence = core::sequence(p, buffers, b);
  const std::int64_t keys = sequence.key_count;
  const std::int64_t width = p.head_dim;
  const std::int64_t value_width = p.value_head_dim;
  const auto key = read_rows(p.key, buffers.key, b, sequence.key_begin, keys, key_head, width);
  const auto value = read_rows(p.value, buffers.value, b, sequence.key_begin, keys, key_head, value_width);
  std::vector<double> grad_key(key.size(), 0.0);
  std::vector<double> grad_value(value.size(), 0.0);
  std::vector<double> grad_query(static_cast<std::size_t>(width));

  for (std::int64_t n = key_head * p.group(); n < (key_head + 1) * p.group(); ++n) {
    const auto query = read_rows(p.query, buffers.query, b, sequence.query_begin, sequence.query_count, n, width);
    const auto out = read_rows(p.out, buffers.out, b, sequence.query_begin, sequence.query_count, n, value_width);
    const auto grad_out =
        read_rows(p.grad_out, buffers.grad_out, b, sequence.query_begin, sequence.query_count, n, value_width);
    for (std::int64_t t = 0; t < sequence.query_count; ++t) {
      const Query q{p, buffers, sequence, b, n, t};
      const std::int64_t token = sequence.query_begin + t;
      const double lse = core::load(buffers.lse, p.lse.dtype, lse_offset(p.lse, b, n, token));
      std::fill(grad_query.begin(), grad_query.end(), 0.0);
      if (lse != negative_infinity) {
        const double* q_row = query.data() + t * width;
        const double* grad_out_row = grad_out.data() + t * value_width;
        double delta = dot(grad_out_row, out.data() + t * value_width, value_width);
        if (p.grad_lse.present()) delta -= core::load(buffers.grad_lse, p.grad_lse.dtype, lse_offset(p.grad_lse, b, n, token));
        for (std::int64_t s = 0; s < keys; ++s) {
          if (!visible(q, s)) continue;
          const Logit x = logit(q, s, p.scale * dot(q_row, key.data() + s * width, width));
          if (x.value == negative_infinity) continue;
          const double weight = std::exp(x.value - lse);
          const double kept = dropout_factor(q, s);
          const double grad_weight = kept * dot(grad_out_row, value.data() + s * value_width, value_width);
          const double grad_logit = weight * (grad_weight - delta);
          const double grad_score = p.scale * grad_logit * x.softcap_slope;
          for (std::int64_t h = 0; h < value_width; ++h) grad_value[s * value_width + h] += weight * kept * grad_out_row[h];
          for (std::int64_t h = 0; h < width; ++h) grad_query[h] += grad_score * key[s * width + h];
          for (std::int64_t h = 0; h < width; ++h) grad_key[s * width + h] += grad_score * q_row[h];
          if (p.grad_bias.present()) totals.bias[bias_index(p, q, s)] += grad_logit;
        }
        if (p.grad_sink.present()) {
          const double sink = core::load(buffers.sink, p.sink.dtype, n * p.sink.strides[0]);
          totals.sink[b * p.query_heads + n] -= std::exp(sink - lse) * delta;
        }
      }
      if (p.grad_query.present()) write_row(p.grad_query, buffers.grad_query, b, token, n, width, grad_query.data());
    }
  }
  for (std::int64_t s = 0; s < keys; ++s) {
    const std::int64_t token = sequence.key_begin + s;
    if (p.grad_key.present()) write_row(p.grad_key, buffers.grad_key, b, token, key_head, width, grad_key.data() + s * width);
    if (p.grad_value.present()) {
      write_row(p.grad_value, buffers.grad_value, b, token, key_head, value_width, grad_value.data() + s * value_width);
    }
  }
}

void write_bias(const core::Problem& p, const core::Buffers& buffers, const std::vector<double>& total) {
  const auto& shape = p.bias_shape;
  const auto& strides = p.grad_bias.strides;
  std::size_t i = 0;
  for (std::int64_t b = 0; b < shape[0]; ++b) {
    for (std::int64_t n = 0; n < shape[1]; ++n) {
      for (std::int64_t t = 0; t < shape[2]; ++t) {
        for (std::int64_t s = 0; s < shape[3]; ++s) {
          const std::int64_t at = b * strides[0] + n * strides[1] + t * strides[2] + s * strides[3];
          core::store(buffers.grad_bias, p.grad_bias.dtype, at, total[i++]);
        }
      }
    }
  }
}

void write_sink(const core::Problem& p, const core::Buffers& buffers, const std::vector<double>& total) {
  for (std::int64_t n = 0; n < p.query_heads; ++n) {
    double sum = 0;
    for (std::int64_t b = 0; b < p.batch; ++b) sum += total[b * p.query_heads + n];
    core::store(buffers.grad_sink, p.grad_sink.dtype, n * p.grad_sink.strides[0], sum);
  }
}

}  // namespace

void backward(const core::Problem& p, const core::Buffers& buffers) {
  if (p.grad_query.present()) {
    blank_uncovered(p, buffers, true, p.grad_query, buffers.grad_query, p.query_heads, p.head_dim);
  }
  if (p.grad_key.present()) blank_uncovered(p, buffers, false, p.grad_key, buffers.grad_key, p.key_heads, p.head_dim);
  if (p.grad_value.present())
    blank_uncovered(p, buffers, false, p.grad_value, buffers.grad_value, p.key_heads, p.value_head_dim);

  Totals totals;
  const auto& shape = p.bias_shape;
  if (p.grad_bias.present()) totals.bias.assign(static_cast<std::size_t>(shape[0] * shape[1] * shape[2] * shape[3]), 0.0);
  if (p.grad_sink.present()) totals.sink.assign(static_cast<std::size_t>(p.batch * p.query_heads), 0.0);

  // Tasks that would add to the same element of dbias run one after the other.
  const bool shared_bias = p.grad_bias.present() && (shape[0] < p.batch || shape[1] < p.query_heads);
  core::parallel_for(p.batch * p.key_heads, shared_bias ? 1 : p.threads, [&](std::int64_t task, int) {
    backward_group(p, buffers, task / p.key_heads, task % p.key_heads, totals);
  });
  if (p.grad_bias.present()) write_bias(p, buffers, totals.bias);
  if (p.grad_sink.present()) write_sink(p, buffers, totals.sink);
}

}  // namespace dhyan::reference

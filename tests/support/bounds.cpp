// SPDX-License-Identifier: Apache-2.0
#include "support/bounds.hpp"

#include <algorithm>
#include <limits>

#include "core/convert.hpp"
#include "core/parallel.hpp"
#include "reference/rows.hpp"

namespace dhyan::testing {
namespace {

using reference::Query;

// Half the distance of numbers next to 0: rounding to nothing.
double smallest_step(dhyan_dtype dtype) {
  switch (dtype) {
    case DHYAN_F64:
      return std::numeric_limits<double>::min();
    case DHYAN_F16:
      return 0x1p-25;
    default:
      return 0x1p-126;  // subnormals may be flushed
  }
}

double norm(const double* x, std::int64_t n) { return std::sqrt(reference::dot(x, x, n)); }

// Collects, per element, errors that add up and errors that are independent of each other.
struct Errors {
  explicit Errors(std::int64_t size)
      : sum(static_cast<std::size_t>(size), 0.0),
        rounding(static_cast<std::size_t>(size), 0.0),
        squares(static_cast<std::size_t>(size), 0.0) {}
  // A term `factor * x[i]` with error weights: `error` (any sign) and `rounded` (times u, independent).
  void add(std::int64_t at, const double* x, std::int64_t n, double error, double rounded) {
    for (std::int64_t i = 0; i < n; ++i) {
      const double magnitude = std::abs(x[i]);
      sum[static_cast<std::size_t>(at + i)] += error * magnitude;
      rounding[static_cast<std::size_t>(at + i)] += rounded * magnitude;
      squares[static_cast<std::size_t>(at + i)] += rounded * rounded * magnitude * magnitude;
    }
  }
  std::vector<double> sum, rounding, squares;
};

// `u` of the inputs multiplies what was rounded before a product; the result itself is rounded to `type`, and so may be parts
// of it before they are added up.
Bound finish(const Errors& errors, double u, const Array& result, dhyan_dtype type, double roundings = 1) {
  Bound bound;
  const auto want = result.values();
  const double own = roundoff(type);
  double total = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (!std::isfinite(want[i])) {  // its place is all that counts
      bound.element.push_back(0);
      continue;
    }
    const double store = own * std::abs(want[i]) + roundings * smallest_step(type);
    bound.element.push_back(store + errors.sum[i] + u * errors.rounding[i]);
    total += store * store + errors.sum[i] * errors.sum[i] + u * u * errors.squares[i];
  }
  bound.norm = 2 * std::sqrt(total);
  return bound;
}

// What is rounded to the inputs' type before a product, relative and absolute.
struct Rounding {
  explicit Rounding(dhyan_dtype dtype)
      : relative(dtype == DHYAN_F16 || dtype == DHYAN_BF16 ? roundoff(dtype) : 0),
        smallest(dtype == DHYAN_F16 ? smallest_step(dtype) : 0) {}
  double relative, smallest;
};

struct LogitError {
  double logit;      // value
  double slope;      // of the softcap
  double error;      // of the logit
  double slope_err;  // of the slope
};

LogitError logit_error(const Query& q, std::int64_t s, const double* query, const double* key, dhyan_dtype dtype) {
  const core::Problem& p = q.problem;
  const double a = accumulation_roundoff(dtype);
  const double score = p.scale * reference::dot(query, key, p.head_dim);
  const double e = accumulation(dtype, static_cast<double>(p.head_dim)) * std::abs(p.scale) * norm(query, p.head_dim) *
                   norm(key, p.head_dim);
  const reference::Logit x = reference::logit(q, s, score);
  LogitError result{x.value, x.softcap_slope, e, 0};
  double capped = score;
  if (p.softcap > 0) {
    capped = p.softcap * std::tanh(score / p.softcap);
    result.error += 8 * a * p.softcap;
    result.slope_err = 2 * e / p.softcap + 16 * a;
  }
  // |bias - slope distance| from what the whole adds up to; each addition rounds once more.
  const double added = std::abs(x.value - capped);
  const double distance = p.alibi_slopes.present() ? static_cast<double>(p.query_length + p.key_length) : 0;
  if (std::isfinite(added)) result.error += 4 * a * (std::abs(capped) + added + 0.2 * distance);
  return result;
}

double sink_of(const Instance& x, std::int64_t n) {
  return x.sink.present() ? x.sink.get(0, 0, 0, n) : reference::negative_infinity;
}

}  // namespace

double roundoff(dhyan_dtype dtype) {
  switch (dtype) {
    case DHYAN_F64:
      return 0x1p-53;
    case DHYAN_F32:
      return 0x1p-24;
    case DHYAN_F16:
      return 0x1p-11;
    default:
      return 0x1p-8;
  }
}

double accumulation_roundoff(dhyan_dtype dtype) { return dtype == DHYAN_F64 ? 0x1p-53 : 0x1p-24; }

ForwardBounds forward_bounds(const Instance& x, const Forward& result) {
  const core::Problem& p = x.problem;
  const core::Buffers buffers = x.buffers();
  const dhyan_dtype dtype = p.dtype;
  const double a = accumulation_roundoff(dtype);
  const Rounding round(dtype);
  Errors out(result.out.size());
  Errors lse(result.out.shape()[0] * p.query_heads * p.query_tokens);
  const std::int64_t width = p.head_dim;
  const std::int64_t value_width = p.value_head_dim;

  core::parallel_for(p.batch * p.query_heads, 2, [&](std::int64_t task, int) {
    const std::int64_t b = task / p.query_heads;
    const std::int64_t n = task % p.query_heads;
    const std::int64_t row_b = p.packed ? 0 : b;
    const core::Sequence seq = x.sequence(b);
    const auto query = reference::read_rows(p.query, buffers.query, b, seq.query_begin, seq.query_count, n, width);
    const auto key = reference::read_rows(p.key, buffers.key, b, seq.key_begin, seq.key_count, n / p.group(), width);
    const auto value =
        reference::read_rows(p.value, buffers.value, b, seq.key_begin, seq.key_count, n / p.group(), value_width);
    std::vector<LogitError> logits(static_cast<std::size_t>(seq.key_count));
    for (std::int64_t t = 0; t < seq.query_count; ++t) {
      const Query q{p, buffers, seq, b, n, t};
      double highest = sink_of(x, n);
      double error = 0;
      for (std::int64_t s = 0; s < seq.key_count; ++s) {
        LogitError& e = logits[static_cast<std::size_t>(s)];
        e = {reference::negative_infinity, 0, 0, 0};
        if (!reference::visible(q, s)) continue;
        e = logit_error(q, s, query.data() + t * width, key.data() + s * width, dtype);
        if (e.logit == reference::negative_infinity) continue;
        highest = std::max(highest, e.logit);
        error = std::max(error, e.error);
      }
      if (highest == reference::negative_infinity) continue;
      double sum = std::exp(sink_of(x, n) - highest);
      for (const LogitError& e : logits) sum += std::exp(e.logit - highest);
      const double sum_error = accumulation(dtype, static_cast<double>(seq.key_count));
      const std::int64_t token = seq.query_begin + t;
      lse.sum[static_cast<std::size_t>((row_b * p.query_heads + n) * p.query_tokens + token)] =
          error + sum_error + 4 * a * (std::abs(highest) + std::abs(highest + std::log(sum)) + 1);

      const std::int64_t at = ((row_b * p.query_tokens + token) * p.query_heads + n) * value_width;
      for (std::int64_t s = 0; s < seq.key_count; ++s) {
        const double logit = logits[static_cast<std::size_t>(s)].logit;
        if (logit == reference::negative_infinity) continue;
        const double factor = reference::dropout_factor(q, s);
        const double weight = std::exp(logit - highest) / sum * factor;
        const double weight_error = 2 * error + 2 * sum_error + 8 * a + 2 * a * std::abs(highest);
        out.add(at, value.data() + s * value_width, value_width, weight * weight_error + round.smallest * factor, weight);
      }
    }
  });
  ForwardBounds bounds;
  bounds.out = finish(out, round.relative, result.out, dtype);
  const dhyan_dtype statistics = dtype == DHYAN_F64 ? DHYAN_F64 : DHYAN_F32;
  bounds.lse = finish(lse, 0, result.lse, statistics);
  return bounds;
}

BackwardBounds backward_bounds(const Instance& x, const Forward& given, const Backward& result, bool heads_rounded) {
  const core::Problem& p = x.problem;
  const core::Buffers buffers = x.buffers();
  const dhyan_dtype dtype = p.dtype;
  const double a = accumulation_roundoff(dtype);
  const Rounding round(dtype);
  const std::int64_t width = p.head_dim;
  const std::int64_t value_width = p.value_head_dim;
  const auto values = [](const Array& like) { return like.size(); };
  Errors grad_query(values(x.query)), grad_key(values(x.key)), grad_value(values(x.value));
  Errors grad_bias(result.grad_bias.present() ? result.grad_bias.size() : 0);
  Errors grad_sink(result.grad_sink.present() ? p.query_heads : 0);
  const Shape& shape = x.bias.shape();
  const double bias_terms = result.grad_bias.present() && result.grad_bias.size() > 0
                                ? static_cast<double>(p.batch * p.query_heads * p.query_length * p.key_length) /
                                      static_cast<double>(result.grad_bias.size())
                                : 1;
  const double rows = static_cast<double>(p.query_length * p.group());

  core::parallel_for(
      p.batch * p.key_heads, result.grad_bias.present() || result.grad_sink.present() ? 1 : 2, [&](std::int64_t task, int) {
        const std::int64_t b = task / p.key_heads;
        const std::int64_t key_head = task % p.key_heads;
        const std::int64_t row_b = p.packed ? 0 : b;
        const core::Sequence seq = x.sequence(b);
        const auto key = reference::read_rows(p.key, buffers.key, b, seq.key_begin, seq.key_count, key_head, width);
        const auto value = reference::read_rows(p.value, buffers.value, b, seq.key_begin, seq.key_count, key_head, value_width);
        for (std::int64_t n = key_head * p.group(); n < (key_head + 1) * p.group(); ++n) {
          const auto query = reference::read_rows(p.query, buffers.query, b, seq.query_begin, seq.query_count, n, width);
          for (std::int64_t t = 0; t < seq.query_count; ++t) {
            const std::int64_t token = seq.query_begin + t;
            const double lse = given.lse.get(row_b, 0, n, token);
            if (lse == reference::negative_infinity) continue;
            const Query q{p, buffers, seq, b, n, t};
            const double* q_row = query.data() + t * width;
            std::vector<double> grad_out(static_cast<std::size_t>(value_width));
            double delta = 0;
            double delta_size = 0;
            for (std::int64_t h = 0; h < value_width; ++h) {
              grad_out[static_cast<std::size_t>(h)] = x.grad_out.get(row_b, token, n, h);
              const double term = grad_out[static_cast<std::size_t>(h)] * given.out.get(row_b, token, n, h);
              delta += term;
              delta_size += std::abs(term);
            }
            if (x.grad_lse.present()) {
              const double g = x.grad_lse.get(row_b, 0, n, token);
              delta -= g;
              delta_size += std::abs(g);
            }
            const double grad_norm = norm(grad_out.data(), value_width);
            const double dot_error = accumulation(dtype, static_cast<double>(value_width));
            const std::int64_t query_at = ((row_b * p.query_tokens + token) * p.query_heads + n) * width;
            for (std::int64_t s = 0; s < seq.key_count; ++s) {
              if (!reference::visible(q, s)) continue;
              const double* k_row = key.data() + s * width;
              const double* v_row = value.data() + s * value_width;
              const LogitError e = logit_error(q, s, q_row, k_row, dtype);
              if (e.logit == reference::negative_infinity) continue;
              const double weight = std::exp(e.logit - lse);
              const double weight_error = e.error + 4 * a * (std::abs(e.logit) + std::abs(lse)) + 8 * a;
              const double factor = reference::dropout_factor(q, s);
              const double grad = factor * reference::dot(grad_out.data(), v_row, value_width) - delta;
              const double grad_error = dot_error * (factor * grad_norm * norm(v_row, value_width) + delta_size);
              const double logit_grad = std::abs(weight * grad);
              const double logit_grad_error = weight * grad_error + logit_grad * (weight_error + 4 * a);
              const double score_grad = logit_grad * e.slope;
              const double score_error = logit_grad_error * e.slope + logit_grad * e.slope_err + round.smallest;
              const double scale = std::abs(p.scale);
              const std::int64_t key_token = seq.key_begin + s;
              const std::int64_t key_at = ((row_b * p.key_tokens + key_token) * p.key_heads + key_head) * width;
              const std::int64_t value_at = ((row_b * p.key_tokens + key_token) * p.key_heads + key_head) * value_width;
              const double smallest = round.smallest;  // when the scale is applied before rounding
              grad_query.add(
                  query_at, k_row, width,
                  scale * (score_error + score_grad * accumulation(dtype, static_cast<double>(seq.key_count))) + smallest,
                  scale * score_grad);
              grad_key.add(key_at, q_row, width, scale * (score_error + score_grad * accumulation(dtype, rows)) + smallest,
                           scale * score_grad);
              grad_value.add(value_at, grad_out.data(), value_width,
                             weight * factor * (weight_error + accumulation(dtype, rows)) + smallest * factor, weight * factor);
              if (result.grad_bias.present()) {
                const auto index = [](std::int64_t size, std::int64_t i) { return size == 1 ? 0 : i; };
                const std::int64_t at =
                    ((index(shape[0], b) * shape[1] + index(shape[1], n)) * shape[2] + index(shape[2], t)) * shape[3] +
                    index(shape[3], s);
                grad_bias.sum[static_cast<std::size_t>(at)] += logit_grad_error + logit_grad * accumulation(dtype, bias_terms);
              }
            }
            if (result.grad_sink.present()) {
              const double sink = sink_of(x, n);
              const double weight = std::exp(sink - lse);
              grad_sink.sum[static_cast<std::size_t>(n)] +=
                  weight * (std::abs(delta) * (4 * a * (std::abs(sink) + std::abs(lse)) + 8 * a +
                                               accumulation(dtype, static_cast<double>(p.batch * p.query_length))) +
                            dot_error * delta_size);
            }
          }
        }
      });
  BackwardBounds bounds;
  if (result.grad_query.present()) bounds.grad_query = finish(grad_query, round.relative, result.grad_query, dtype);
  const bool more = heads_rounded && p.group() > 1;
  const double of_keys = (more ? 2 : 1) * round.relative;  // a head's part is at most its terms' sizes
  const double roundings = more ? 1 + static_cast<double>(p.group()) : 1;
  if (result.grad_key.present()) bounds.grad_key = finish(grad_key, of_keys, result.grad_key, dtype, roundings);
  if (result.grad_value.present()) bounds.grad_value = finish(grad_value, of_keys, result.grad_value, dtype, roundings);
  if (result.grad_bias.present()) bounds.grad_bias = finish(grad_bias, 0, result.grad_bias, x.bias.dtype());
  if (result.grad_sink.present())
    bounds.grad_sink = finish(grad_sink, 0, result.grad_sink, dtype == DHYAN_F64 ? DHYAN_F64 : DHYAN_F32);
  return bounds;
}

}  // namespace dhyan::testing

// SPDX-License-Identifier: Apache-2.0
#include "reference/forward.hpp"

#include <algorithm>
#include <cmath>

#include "core/parallel.hpp"
#include "reference/rows.hpp"

namespace dhyan::reference {
namespace {

void forward_head(const core::Problem& p, const core::Buffers& buffers, std::int64_t b, std::int64_t n) {
  const core::Sequence sequence = core::sequence(p, buffers, b);
  const std::int64_t keys = sequence.key_count;
  const std::int64_t key_head = n / p.group();
  const auto query = read_rows(p.query, buffers.query, b, sequence.query_begin, sequence.query_count, n, p.head_dim);
  const auto key = read_rows(p.key, buffers.key, b, sequence.key_begin, keys, key_head, p.head_dim);
  const auto value = read_rows(p.value, buffers.value, b, sequence.key_begin, keys, key_head, p.value_head_dim);
  const double sink = p.sink.present() ? core::load(buffers.sink, p.sink.dtype, n * p.sink.strides[0]) : negative_infinity;

  std::vector<double> logits(static_cast<std::size_t>(keys));
  std::vector<double> out(static_cast<std::size_t>(p.value_head_dim));
  for (std::int64_t t = 0; t < sequence.query_count; ++t) {
    const Query q{p, buffers, sequence, b, n, t};
    double highest = sink;
    bool alive = sink != negative_infinity;  // some logit is not -inf (a NaN counts)
    for (std::int64_t s = 0; s < keys; ++s) {
      double x = negative_infinity;
      if (visible(q, s))
        x = logit(q, s, p.scale * dot(query.data() + t * p.head_dim, key.data() + s * p.head_dim, p.head_dim)).value;
      logits[s] = x;
      highest = std::max(highest, x);
      alive = alive || x != negative_infinity;
    }

    std::fill(out.begin(), out.end(), 0.0);
    double lse = negative_infinity;
    if (alive) {
      double sum = std::exp(sink - highest);
      for (const double x : logits) sum += std::exp(x - highest);
      lse = highest + std::log(sum);
      for (std::int64_t s = 0; s < keys; ++s) {
        if (logits[s] == negative_infinity) continue;
        const double weight = std::exp(logits[s] - highest) / sum * dropout_factor(q, s);
        for (std::int64_t h = 0; h < p.value_head_dim; ++h) out[h] += weight * value[s * p.value_head_dim + h];
      }
    }
    const std::int64_t token = sequence.query_begin + t;
    write_row(p.out, buffers.out, b, token, n, p.value_head_dim, out.data());
    if (p.lse.present()) core::store(buffers.lse, p.lse.dtype, lse_offset(p.lse, b, n, token), lse);
  }
}

}  // namespace

void forward(const core::Problem& p, const core::Buffers& buffers) {
  blank_uncovered(p, buffers, true, p.out, buffers.out, p.query_heads, p.value_head_dim);
  if (p.lse.present()) {
    core::uncovered_rows(p, buffers, true, [&](std::int64_t b, std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = 0; n < p.query_heads; ++n) {
        for (std::int64_t token = begin; token < end; ++token) {
          core::store(buffers.lse, p.lse.dtype, lse_offset(p.lse, b, n, token), negative_infinity);
        }
      }
    });
  }
  core::parallel_for(p.batch * p.query_heads, p.threads,
                     [&](std::int64_t task, int) { forward_head(p, buffers, task / p.query_heads, task % p.query_heads); });
}

}  // namespace dhyan::reference

// SPDX-License-Identifier: Apache-2.0
// Before the products: row sums, the rows nothing else writes; and dSink, which needs no more than the row sums.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/parallel.hpp"
#include "cpu/fused_backward.hpp"

namespace dhyan::cpu {
namespace {

constexpr std::int64_t kRows = 64;  // of a task

struct Rows {
  std::int64_t b, begin, end;
};

void blank(const core::Operand& operand, void* data, std::int64_t b, std::int64_t begin, std::int64_t end, std::int64_t heads,
           std::int64_t dim) {
  for (std::int64_t token = begin; token < end; ++token) {
    for (std::int64_t head = 0; head < heads; ++head)
      std::memset(core::advance(data, operand.dtype, row_offset(operand, b, token, head)), 0,
                  static_cast<std::size_t>(dim) * core::size_of(operand.dtype));
  }
}

// Rows of the outputs that belong to no sequence.
void blank_uncovered(const BackwardPlan& plan, const core::Buffers& buffers, bool queries) {
  const core::Problem& p = plan.problem;
  if (queries ? !plan.query : !plan.key && !plan.value) return;
  std::vector<Rows> parts;
  core::uncovered_rows(p, buffers, queries, [&](std::int64_t b, std::int64_t begin, std::int64_t end) {
    for (; begin < end; begin += kRows) parts.push_back({b, begin, std::min(end, begin + kRows)});
  });
  core::parallel_for(static_cast<std::int64_t>(parts.size()), p.threads, [&](std::int64_t task, int) {
    const Rows& part = parts[static_cast<std::size_t>(task)];
    if (queries) {
      blank(p.grad_query, buffers.grad_query, part.b, part.begin, part.end, p.query_heads, p.head_dim);
      return;
    }
    if (plan.key) blank(p.grad_key, buffers.grad_key, part.b, part.begin, part.end, p.key_heads, p.head_dim);
    if (plan.value) blank(p.grad_value, buffers.grad_value, part.b, part.begin, part.end, p.key_heads, p.value_head_dim);
  });
}

// Every element of dBias, unless the tiles will write them all.
void blank_bias(const BackwardPlan& plan, const core::Buffers& buffers) {
  const core::Problem& p = plan.problem;
  if (!plan.bias_in_tiles) return;
  const bool all_seen = !p.packed && !p.query_lengths.present() && !p.key_lengths.present() && p.causal == DHYAN_CAUSAL_OFF &&
                        p.window_left < 0 && p.window_right < 0;
  if (all_seen) return;
  const core::Operand& bias = p.grad_bias;
  core::parallel_for(p.batch * p.query_heads, p.threads, [&](std::int64_t task, int) {
    const std::int64_t b = task / p.query_heads, n = task % p.query_heads;
    for (std::int64_t t = 0; t < p.query_length; ++t) {
      const std::int64_t row = b * bias.strides[0] + n * bias.strides[1] + t * bias.strides[2];
      if (bias.strides[3] == 1) {
        std::memset(core::advance(buffers.grad_bias, bias.dtype, row), 0,
                    static_cast<std::size_t>(p.key_length) * core::size_of(bias.dtype));
        continue;
      }
      for (std::int64_t s = 0; s < p.key_length; ++s) core::store(buffers.grad_bias, bias.dtype, row + s * bias.strides[3], 0);
    }
  });
}

void sum_rows(const BackwardPlan& plan, const core::Buffers& buffers, const SharedScratch& shared) {
  const core::Problem& p = plan.problem;
  std::int64_t longest = p.query_length;
  if (p.packed || p.query_lengths.present()) {
    longest = 0;
    for (std::int64_t b = 0; b < p.batch; ++b) longest = std::max(longest, core::sequence(p, buffers, b).query_count);
  }
  const bool deltas = plan.score_gradients() || plan.bias_by_sums || plan.sink;
  const std::int64_t parts = ceil_div(longest, kRows);
  core::parallel_for(p.batch * parts, p.threads, [&](std::int64_t task, int) {
    const std::int64_t b = task / parts;
    const core::Sequence sequence = core::sequence(p, buffers, b);
    const std::int64_t begin = task % parts * kRows, end = std::min(begin + kRows, sequence.query_count);
    for (std::int64_t n = 0; n < p.query_heads; ++n) {
      const std::int64_t first = plan.first_row(b, n, sequence);
      if (begin >= end) return;
      if (deltas)
        plan.rows->dot(
            core::advance(buffers.grad_out, p.grad_out.dtype, row_offset(p.grad_out, b, sequence.query_begin + begin, n)),
            p.grad_out.strides[1],
            core::advance(buffers.out, p.out.dtype, row_offset(p.out, b, sequence.query_begin + begin, n)), p.out.strides[1],
            p.dtype, end - begin, p.value_head_dim, shared.delta + first + begin);
      for (std::int64_t t = begin; t < end; ++t) {
        const std::int64_t token = sequence.query_begin + t;
        float& lse = shared.lse[first + t];
        float& delta = shared.delta[first + t];
        lse = static_cast<const float*>(buffers.lse)[b * p.lse.strides[0] + n * p.lse.strides[1] + token * p.lse.strides[2]];
        if (!deltas || lse == -std::numeric_limits<float>::infinity()) delta = 0;
        if (lse == -std::numeric_limits<float>::infinity())
          lse = -lse;
        else if (deltas && p.grad_lse.present())
          delta -= static_cast<const float*>(
              buffers.grad_lse)[b * p.grad_lse.strides[0] + n * p.grad_lse.strides[1] + token * p.grad_lse.strides[2]];
      }
    }
    if (!plan.query) return;
    // Blocks of queries that no chunk of keys visits.
    const core::KeyRange seen = core::visible_queries(p, sequence, 0, sequence.key_count);
    const std::int64_t seen_begin = seen.begin / plan.query_block * plan.query_block;
    const std::int64_t seen_end = round_up(seen.end, plan.query_block);
    for (std::int64_t t = begin; t < end; ++t) {
      if (t >= seen_begin && t < seen_end) continue;
      const std::int64_t token = sequence.query_begin + t;
      blank(p.grad_query, buffers.grad_query, b, token, token + 1, p.query_heads, p.head_dim);
    }
  });
}

}  // namespace

void prepare_backward(const BackwardPlan& plan, const core::Buffers& buffers, const SharedScratch& shared) {
  blank_uncovered(plan, buffers, true);
  blank_uncovered(plan, buffers, false);
  blank_bias(plan, buffers);
  sum_rows(plan, buffers, shared);
}

// dSink[n] = -sum over b, t of exp(sink - lse) * delta.
void sink_gradient(const BackwardPlan& plan, const core::Buffers& buffers, const SharedScratch& shared) {
  const core::Problem& p = plan.problem;
  core::parallel_for(p.query_heads, p.threads, [&](std::int64_t n, int) {
    const double sink = core::load(buffers.sink, p.sink.dtype, n * p.sink.strides[0]);
    double sum = 0;
    for (std::int64_t b = 0; b < p.batch; ++b) {
      const core::Sequence sequence = core::sequence(p, buffers, b);
      const std::int64_t first = plan.first_row(b, n, sequence);
      for (std::int64_t row = first; row < first + sequence.query_count; ++row) {
        if (shared.lse[row] != std::numeric_limits<float>::infinity())
          sum -= std::exp(sink - static_cast<double>(shared.lse[row])) * static_cast<double>(shared.delta[row]);
      }
    }
    core::store(buffers.grad_sink, p.grad_sink.dtype, n * p.grad_sink.strides[0], sum);
  });
}

}  // namespace dhyan::cpu

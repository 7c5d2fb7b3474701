// SPDX-License-Identifier: Apache-2.0
#include "measure/sample.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace dhyan::app {
namespace {

struct Row {
  std::int64_t batch = 0, head = 0, token = 0;  // token within its sequence; head of the row's own side
};

// First, last and evenly scattered rows of one side, sorted so that neighbours share a head.
std::vector<Row> choose_rows(const Geometry& g, bool queries) {
  constexpr double most_flop = 1e9;
  constexpr std::int64_t fewest = 8, most = 64;
  const std::int64_t heads = queries ? g.query_heads : g.key_heads;
  const std::int64_t other = queries ? g.key_length : g.query_length * (g.query_heads / std::max<std::int64_t>(g.key_heads, 1));
  std::int64_t total = 0;
  for (const Sequence& s : g.sequences) total += (queries ? s.query_count : s.key_count) * heads;
  const double row_flop =
      2.0 * static_cast<double>(std::max<std::int64_t>(other, 1)) * static_cast<double>(g.head_dim + g.value_head_dim);
  const std::int64_t count = std::min(total, std::clamp(static_cast<std::int64_t>(most_flop / row_flop), fewest, most));
  std::set<std::int64_t> chosen;
  if (total > 0) chosen = {0, total - 1};
  constexpr double golden = 0.6180339887498949;
  for (std::int64_t i = 1; static_cast<std::int64_t>(chosen.size()) < count; ++i) {
    const double at = static_cast<double>(i) * golden;
    chosen.insert(static_cast<std::int64_t>((at - std::floor(at)) * static_cast<double>(total)));
  }
  std::vector<Row> rows;
  for (const std::int64_t index : chosen) {
    std::int64_t rest = index;
    for (std::int64_t b = 0; b < g.batch; ++b) {
      const std::int64_t here = (queries ? g.sequences[b].query_count : g.sequences[b].key_count) * heads;
      if (rest < here) {
        rows.push_back({b, rest % heads, rest / heads});
        break;
      }
      rest -= here;
    }
  }
  std::ranges::sort(
      rows, [](const Row& x, const Row& y) { return std::tie(x.batch, x.head, x.token) < std::tie(y.batch, y.head, y.token); });
  return rows;
}

// Rows [begin, begin + count) of `heads` heads from `head` on of a BTNH or THD tensor, as float64.
Array slice(const Array& tensor, std::int64_t begin, std::int64_t count, std::int64_t head, std::int64_t heads) {
  const std::size_t rank = tensor.shape.size();
  const std::int64_t width = tensor.shape[rank - 1], all_heads = tensor.shape[rank - 2];
  const ElementInfo& info = info_of(tensor.element);
  Array result(Element::f64, {1, count, heads, width});
  const std::int64_t shape[] = {count, heads, width}, strides[] = {all_heads * width, width, 1};
  const std::byte* start = tensor.data.data() + static_cast<std::size_t>((begin * all_heads + head) * width) * info.size;
  convert(TensorView(start, info.dtype, shape, strides), TensorView(result.data.data(), DType::f64, shape));
  return result;
}

// The part of a broadcast [B, N, T, S] tensor that belongs to the shard; dimensions of size 1 stay.
TensorView part(const std::optional<Array>& tensor, std::array<std::int64_t, 4> first, std::array<std::int64_t, 4> count) {
  if (!tensor) return {};
  std::array<std::int64_t, 4> shape{1, 1, 1, 1}, strides{};
  std::ranges::copy(tensor->shape, shape.end() - static_cast<std::ptrdiff_t>(tensor->shape.size()));
  std::int64_t stride = 1, offset = 0;
  for (int d = 3; d >= 0; --d) {
    strides[d] = d == 3 ? 1 : shape[d] == 1 ? 0 : stride;
    stride *= shape[d];
    if (shape[d] == 1) continue;
    offset += first[d] * strides[d];
    shape[d] = count[d];
  }
  const ElementInfo& info = info_of(tensor->element);
  return {tensor->data.data() + static_cast<std::size_t>(offset) * info.size, info.dtype, shape, strides};
}

// The last dimension of [N], [B, N]: `heads` entries from `head` on.
TensorView per_head(const std::optional<Array>& tensor, std::int64_t b, std::int64_t head, std::int64_t heads) {
  if (!tensor) return {};
  const ElementInfo& info = info_of(tensor->element);
  const std::int64_t row = tensor->shape.size() == 2 && tensor->shape[0] > 1 ? b * tensor->shape[1] : 0;
  const std::int64_t shape[] = {heads};
  return {tensor->data.data() + static_cast<std::size_t>(row + head) * info.size, info.dtype, shape};
}

// A shard: query rows [t, t + queries) of heads [head, head + heads), key rows [s, s + keys) of one sequence.
struct Shard {
  std::int64_t batch, head, heads, query, queries, key, keys;
};

Options shard_options(const Call& call, const Geometry& g, const Shard& shard) {
  const Sequence& s = g.sequences[shard.batch];
  Options options;
  options.implementation = Implementation::reference;
  options.threads = call.threads;
  options.scale = call.scale;
  options.softcap = call.softcap;
  options.window = call.window;
  options.dropout = call.dropout;
  // Bottom-right is top-left with the queries moved by the difference of the lengths.
  options.causal = call.causal == Causal::off ? Causal::off : Causal::top_left;
  const std::int64_t shift = call.causal == Causal::bottom_right ? s.key_count - s.query_count : 0;
  options.origin = {call.origin.batch + shard.batch, call.origin.head + shard.head, call.origin.query + shard.query + shift,
                    call.origin.key + shard.key};
  const std::array<std::int64_t, 4> first = {shard.batch, shard.head, shard.query, shard.key};
  const std::array<std::int64_t, 4> count = {1, shard.heads, shard.queries, shard.keys};
  options.bias = part(call.bias, first, count);
  options.mask = part(call.mask, first, count);
  options.alibi_slopes = per_head(call.alibi_slopes, shard.batch, shard.head, shard.heads);
  options.sink = per_head(call.sink, shard.batch, shard.head, shard.heads);
  return options;
}

// Queries before it see no key at all when the alignment is bottom-right and there are more queries than keys.
std::int64_t first_seeing_query(const Call& call, const Sequence& s) {
  if (call.causal != Causal::bottom_right) return 0;
  return std::max<std::int64_t>(0, s.query_count - s.key_count);
}

Expected rows_of(const std::string& name, std::int64_t width) {
  return {.name = name, .values = {}, .starts = {}, .width = width, .everywhere = false};
}

void add(Expected& expected, std::int64_t start, const Array& values) {
  expected.starts.push_back(start);
  const std::span<const double> v = values.as<double>();
  expected.values.insert(expected.values.end(), v.begin(), v.end());
}

// The keys and values of the head last asked for.
struct HeadCache {
  std::int64_t batch = -1, head = -1;
  Array key, value;

  void load(const Call& call, const Geometry& g, std::int64_t b, std::int64_t k, std::int64_t keys) {
    if (b == batch && k == head && key.shape[1] == keys) return;
    const Sequence& s = g.sequences[b];
    key = slice(call.key, s.key_begin, keys, k, 1);
    value = slice(call.value, s.key_begin, keys, k, 1);
    batch = b;
    head = k;
  }
};

std::int64_t lse_index(const Call& call, const Geometry& g, const Row& row) {
  if (call.packed()) return row.head * call.query.shape[0] + g.sequences[row.batch].query_begin + row.token;
  return (row.batch * g.query_heads + row.head) * g.query_length + row.token;
}

// `rows` positions of `heads` heads of an lse, or of its gradient, as float64.
Array lse_slice(const Array& lse, std::int64_t index, std::int64_t heads, std::int64_t rows) {
  Array result(Element::f64, {1, heads, rows});
  const ElementInfo& info = info_of(lse.element);
  const std::int64_t shape[] = {heads, rows}, strides[] = {lse.shape.back(), 1};
  convert(TensorView(lse.data.data() + static_cast<std::size_t>(index) * info.size, info.dtype, shape, strides),
          TensorView(result.data.data(), DType::f64, shape));
  return result;
}

// What the queries that share one key head give to its gradients.
struct QueryCache {
  std::int64_t batch = -1, head = -1;
  Array query, out, lse, grad_out, grad_lse;

  void load(const Call& call, const Geometry& g, const Shard& shard, const Outputs& given) {
    if (shard.batch == batch && shard.head == head) return;
    const std::int64_t first = g.sequences[shard.batch].query_begin + shard.query;
    query = slice(call.query, first, shard.queries, shard.head, shard.heads);
    out = slice(given.out, first, shard.queries, shard.head, shard.heads);
    grad_out = slice(*call.grad_out, first, shard.queries, shard.head, shard.heads);
    const std::int64_t index = lse_index(call, g, {shard.batch, shard.head, shard.query});
    lse = lse_slice(given.lse, index, shard.heads, shard.queries);
    if (call.grad_lse) grad_lse = lse_slice(*call.grad_lse, index, shard.heads, shard.queries);
    batch = shard.batch;
    head = shard.head;
  }
};

struct RowProblem {
  Array query, out, lse;
  Problem problem;
};

// The shard of one query row; with `given`, its out and lse are filled in.
RowProblem row_problem(const Call& call, const Geometry& g, const Row& row, HeadCache& cache, const Outputs* given) {
  const Sequence& s = g.sequences[row.batch];
  const bool sees = row.token >= first_seeing_query(call, s);
  const std::int64_t keys = sees ? s.key_count : 0;
  const Shard shard{row.batch, row.head, 1, row.token, 1, 0, keys};
  cache.load(call, g, row.batch, row.head / (g.query_heads / g.key_heads), keys);
  RowProblem p;
  p.query = slice(call.query, s.query_begin + row.token, 1, row.head, 1);
  if (given) {
    p.out = slice(given->out, s.query_begin + row.token, 1, row.head, 1);
    p.lse = lse_slice(given->lse, lse_index(call, g, row), 1, 1);
  } else {
    p.out = Array(Element::f64, {1, 1, 1, g.value_head_dim});
    p.lse = Array(Element::f64, {1, 1, 1});
  }
  p.problem = Problem{.query = p.query.view(),
                      .key = cache.key.view(),
                      .value = cache.value.view(),
                      .out = p.out.view(),
                      .lse = p.lse.view(),
                      .options = shard_options(call, g, shard)};
  if (!sees) p.problem.options.origin.query = call.origin.query;  // no key is there to be aligned with
  return p;
}

}  // namespace

Oracle sampled_forward(const Call& call, const Geometry& g) {
  Expected out = rows_of("out", g.value_head_dim), lse = rows_of("lse", 1);
  HeadCache cache;
  const std::vector<Row> rows = choose_rows(g, true);
  for (const Row& row : rows) {
    RowProblem p = row_problem(call, g, row, cache, nullptr);
    attention(p.problem);
    const std::int64_t token = g.sequences[row.batch].query_begin + row.token;
    add(out, (token * g.query_heads + row.head) * g.value_head_dim, p.out);
    add(lse, lse_index(call, g, row), p.lse);
  }
  return {{std::move(out), std::move(lse)}, fmt::format("{} query rows, first, last and scattered", rows.size())};
}

Oracle sampled_backward(const Call& call, const Geometry& g, const Outputs& given) {
  Expected grad_query = rows_of("grad_query", g.head_dim);
  HeadCache cache;
  const std::vector<Row> query_rows = choose_rows(g, true);
  for (const Row& row : query_rows) {
    RowProblem p = row_problem(call, g, row, cache, &given);
    const std::int64_t token = g.sequences[row.batch].query_begin + row.token;
    const Array grad_out = slice(*call.grad_out, token, 1, row.head, 1);
    Array grad_lse;
    if (call.grad_lse) {
      grad_lse = lse_slice(*call.grad_lse, lse_index(call, g, row), 1, 1);
      p.problem.grad_lse = grad_lse.view();
    }
    Array gradient(Element::f64, {1, 1, 1, g.head_dim});
    p.problem.grad_out = grad_out.view();
    p.problem.grads.query = gradient.view();
    attention_backward(p.problem);
    add(grad_query, (token * g.query_heads + row.head) * g.head_dim, gradient);
  }

  Expected grad_key = rows_of("grad_key", g.head_dim), grad_value = rows_of("grad_value", g.value_head_dim);
  const std::vector<Row> key_rows = choose_rows(g, false);
  const std::int64_t group = g.query_heads / g.key_heads;
  QueryCache queries;
  for (const Row& row : key_rows) {
    const Sequence& s = g.sequences[row.batch];
    const std::int64_t first = first_seeing_query(call, s), count = s.query_count - first;
    const Shard shard{row.batch, row.head * group, group, first, count, row.token, 1};
    queries.load(call, g, shard, given);
    const Array key = slice(call.key, s.key_begin + row.token, 1, row.head, 1);
    const Array value = slice(call.value, s.key_begin + row.token, 1, row.head, 1);
    const Array key_gradient(Element::f64, {1, 1, 1, g.head_dim}), value_gradient(Element::f64, {1, 1, 1, g.value_head_dim});
    Problem problem{.query = queries.query.view(),
                    .key = key.view(),
                    .value = value.view(),
                    .out = queries.out.view(),
                    .lse = queries.lse.view(),
                    .grad_out = queries.grad_out.view(),
                    .grads = {.key = key_gradient.view(), .value = value_gradient.view()},
                    .options = shard_options(call, g, shard)};
    if (call.grad_lse) problem.grad_lse = queries.grad_lse.view();
    attention_backward(problem);
    const std::int64_t place = (s.key_begin + row.token) * g.key_heads + row.head;
    add(grad_key, place * g.head_dim, key_gradient);
    add(grad_value, place * g.value_head_dim, value_gradient);
  }
  return {{std::move(grad_query), std::move(grad_key), std::move(grad_value)},
          fmt::format("{} query rows and {} key rows, first, last and scattered", query_rows.size(), key_rows.size())};
}

}  // namespace dhyan::app

// SPDX-License-Identifier: Apache-2.0
#include "problem/random_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "arguments.hpp"

namespace dhyan::app {
namespace {

constexpr std::int64_t lengths[] = {1, 2, 3, 7, 16, 31, 33, 63, 64, 65, 96, 127, 129, 200, 257};
constexpr std::int64_t head_dims[] = {1, 2, 5, 8, 16, 24, 32, 40, 64, 64, 72, 80, 96, 128, 192, 256};
constexpr std::int64_t groups[] = {1, 1, 2, 3, 4, 8};
constexpr Element dtypes[] = {Element::f32, Element::f32, Element::bf16, Element::bf16, Element::f16, Element::f64};
constexpr double most_pair_work = 2e6;  // B·N·T·S·(H + Hv)/…: keeps the reference to some hundredths of a second

Array integers(const std::vector<std::int64_t>& values) {
  Array array(Element::i32, {static_cast<std::int64_t>(values.size())});
  std::ranges::transform(values, array.as<std::int32_t>().begin(), [](std::int64_t v) { return static_cast<std::int32_t>(v); });
  return array;
}

// [B or 1, N or 1, T or 1, S or 1]
Shape broadcast_shape(Random& random, std::int64_t b, std::int64_t n, std::int64_t t, std::int64_t s) {
  Shape shape = {b, n, t, s};
  for (std::int64_t& d : shape) {
    if (random.chance(0.35)) d = 1;
  }
  return shape;
}

struct Sizes {
  std::int64_t batch, query_length, key_length, query_heads, key_heads, head_dim, value_head_dim;
};

Sizes random_sizes(Random& random) {
  Sizes z{};
  do {
    z.batch = random.integer(1, 3);
    z.query_length = random.pick(lengths);
    z.key_length = random.chance(0.4) ? z.query_length : random.pick(lengths);
    z.key_heads = random.integer(1, 3);
    z.query_heads = z.key_heads * random.pick(groups);
    z.head_dim = random.pick(head_dims);
    z.value_head_dim = random.chance(0.75) ? z.head_dim : random.pick(head_dims);
  } while (static_cast<double>(z.batch * z.query_heads * z.query_length * z.key_length) *
               static_cast<double>(z.head_dim + z.value_head_dim) >
           16 * most_pair_work);
  return z;
}

// Starts of sequences with the given lengths, some with a gap behind them; the last number is the number of tokens.
std::vector<std::int64_t> starts_of(const std::vector<std::int64_t>& counts, bool gaps, Random& random) {
  std::vector<std::int64_t> starts = {0};
  for (const std::int64_t count : counts) starts.push_back(starts.back() + count + (gaps ? random.integer(0, 4) : 0));
  return starts;
}

}  // namespace

RandomCall random_call(Random& random, bool backward) {
  const Sizes z = random_sizes(random);
  const Element dtype = random.pick(dtypes);
  const double spread = random.chance(0.2) ? 4 : 1;
  Call call;
  std::string text = fmt::format("{} B{} T{} S{} N{} K{} H{}", info_of(dtype).name, z.batch, z.query_length, z.key_length,
                                 z.query_heads, z.key_heads, z.head_dim);
  if (z.value_head_dim != z.head_dim) text += fmt::format("/{}", z.value_head_dim);

  const bool packed = random.chance(0.2), lengths_given = random.chance(packed ? 0.5 : 0.25);
  if (packed || lengths_given) {
    std::vector<std::int64_t> queries, keys;
    for (std::int64_t b = 0; b < z.batch; ++b) {
      queries.push_back(random.integer(0, z.query_length));
      keys.push_back(random.integer(0, z.key_length));
    }
    if (packed) {
      call.query_offsets = integers(starts_of(queries, lengths_given, random));
      call.key_offsets = integers(starts_of(keys, lengths_given, random));
      text += lengths_given ? " packed with gaps" : " packed";
    } else {
      text += " lengths";
    }
    if (lengths_given) {
      call.query_lengths = integers(queries);
      call.key_lengths = integers(keys);
    }
  }
  const auto tokens = [&](const std::optional<Array>& offsets, std::int64_t length, std::int64_t heads, std::int64_t width) {
    if (packed) return Shape{offsets->as<std::int32_t>().back(), heads, width};
    return Shape{z.batch, length, heads, width};
  };
  call.query = random_array(dtype, tokens(call.query_offsets, z.query_length, z.query_heads, z.head_dim), random, spread);
  call.key = random_array(dtype, tokens(call.key_offsets, z.key_length, z.key_heads, z.head_dim), random, spread);
  call.value = random_array(dtype, tokens(call.key_offsets, z.key_length, z.key_heads, z.value_head_dim), random);

  if (random.chance(0.45)) {
    call.causal = random.chance(0.5) ? Causal::top_left : Causal::bottom_right;
    text += fmt::format(" causal {}", name_of(call.causal));
  }
  if (random.chance(0.2)) {
    call.window = {random.integer(-1, z.key_length), random.integer(-1, z.key_length)};
    text += fmt::format(" window {},{}", call.window.left, call.window.right);
  }
  if (random.chance(0.2)) {
    call.scale = random.uniform() * 0.5;
    text += fmt::format(" scale {:.3f}", *call.scale);
  }
  if (random.chance(0.2)) {
    call.softcap = 1 + 20 * random.uniform();
    text += fmt::format(" softcap {:.2f}", call.softcap);
  }
  const Geometry g = geometry_of(call);
  if (random.chance(0.25)) {
    const Element type = random.chance(0.5) ? Element::f32 : dtype;
    call.bias = random_array(type, broadcast_shape(random, z.batch, z.query_heads, g.query_length, g.key_length), random);
    text += fmt::format(" bias {} {}", info_of(type).name, shape_text(call.bias->shape));
  }
  if (random.chance(0.25)) {
    call.mask = Array(Element::boolean, broadcast_shape(random, z.batch, z.query_heads, g.query_length, g.key_length));
    for (std::uint8_t& byte : call.mask->as<std::uint8_t>()) byte = random.chance(0.7);
    text += fmt::format(" mask {}", shape_text(call.mask->shape));
  }
  if (random.chance(0.15)) {
    call.alibi_slopes = random_array(Element::f32, {z.query_heads}, random, 0.1);
    text += " alibi";
  }
  if (random.chance(0.2)) {
    call.sink = random_array(Element::f32, {z.query_heads}, random);
    text += " sink";
  }
  if (random.chance(0.15)) {
    call.dropout = {0.1 + 0.5 * random.uniform(), random.bits(), random.bits()};
    text += fmt::format(" dropout {:.2f}", call.dropout.probability);
  }
  if (random.chance(0.1) && call.causal != Causal::bottom_right) {
    call.origin = {random.integer(0, 3), random.integer(0, 3), random.integer(0, 50), random.integer(0, 50)};
    text += fmt::format(" origin {},{}", call.origin.query, call.origin.key);
  }
  if (backward) {
    Shape shape = call.query.shape;
    shape.back() = z.value_head_dim;
    call.grad_out = random_array(dtype, shape, random);
    text += " backward";
    if (random.chance(0.3)) {
      const Element wide = dtype == Element::f64 ? Element::f64 : Element::f32;
      const Shape lse = packed ? Shape{z.query_heads, call.query.shape[0]} : Shape{z.batch, z.query_heads, z.query_length};
      call.grad_lse = random_array(wide, lse, random);
      text += " with grad_lse";
    }
  }
  return {std::move(call), std::move(text)};
}

}  // namespace dhyan::app

// SPDX-License-Identifier: Apache-2.0
// The module is the plain call with its settings kept: same bits, forward and backward; and it says what does not fit.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <dhyan/nn.hpp>
#include <functional>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/array.hpp"
#include "support/random.hpp"

namespace dhyan::testing {
namespace {

using nn::AttnMaskType;
using nn::DotProductAttention;
using Arguments = DotProductAttention::Arguments;
using Bytes = std::vector<std::byte>;

constexpr std::int64_t B = 2, T = 7, S = 9, N = 4, H = 8;

// What each mask type has to come to.
struct Meaning {
  AttnMaskType type;
  Causal causal;
  bool padding;
};
constexpr Meaning meanings[] = {
    {AttnMaskType::no_mask, Causal::off, false},
    {AttnMaskType::padding, Causal::off, true},
    {AttnMaskType::causal, Causal::top_left, false},
    {AttnMaskType::padding_causal, Causal::top_left, true},
    {AttnMaskType::causal_bottom_right, Causal::bottom_right, false},
    {AttnMaskType::padding_causal_bottom_right, Causal::bottom_right, true},
};

TensorView view_of(const Array& array) {
  return {array.data(), static_cast<DType>(array.dtype()), array.shape(), array.strides()};
}

TensorView exchanged(const Array& array) {
  Shape shape = array.shape(), strides = array.strides();
  std::swap(shape[0], shape[1]);
  std::swap(strides[0], strides[1]);
  return {array.data(), static_cast<DType>(array.dtype()), shape, strides};
}

// The tensors of one call, as the module wants them, and as the plain call does.
struct Tensors {
  Tensors(dhyan_dtype dtype, std::int64_t groups, bool transposed, Layout layout = Layout::contiguous)
      : transposed(transposed) {
    Random random("module");
    const auto make = [&](std::int64_t length, std::int64_t heads) {
      Array array(dtype, transposed ? Shape{length, B, heads, H} : Shape{B, length, heads, H}, layout);
      array.fill([&](auto...) { return random.normal(); });
      return array;
    };
    query = make(T, N);
    key = make(S, groups);
    value = make(S, groups);
    grad_out = make(T, N);
    for (Array* written : {&out, &grad_query}) *written = query.like();
    for (Array* written : {&grad_key, &grad_value}) *written = key.like();
    lse.assign(B * N * T, -1);
    wide_lse.assign(B * N * T, -1);
    wide = dtype == DHYAN_F64;
  }

  TensorView plain(const Array& array) const { return transposed ? exchanged(array) : view_of(array); }
  TensorView lse_view() { return wide ? TensorView(wide_lse.data(), {B, N, T}) : TensorView(lse.data(), {B, N, T}); }
  nn::Lengths lengths() const {
    return {.query = TensorView(query_lengths.data(), {B}), .key = TensorView(key_lengths.data(), {B})};
  }
  void forget() {
    for (Array* written : {&out, &grad_query, &grad_key, &grad_value}) written->poison();
    lse.assign(lse.size(), -1);
    wide_lse.assign(wide_lse.size(), -1);
  }
  std::vector<Bytes> written() const {
    return {out.element_bytes(), grad_query.element_bytes(), grad_key.element_bytes(), grad_value.element_bytes()};
  }

  bool transposed, wide = false;
  Array query, key, value, out, grad_out, grad_query, grad_key, grad_value;
  std::vector<float> lse;
  std::vector<double> wide_lse;
  std::vector<std::int32_t> query_lengths = {5, 7}, key_lengths = {9, 6};
};

// Forward with lse and backward, by the module and by the plain calls with options written out here.
void expect_same(const Arguments& arguments, const Options& options, bool padding, dhyan_dtype dtype,
                 Layout layout = Layout::contiguous) {
  Tensors x(dtype, arguments.num_gqa_groups.value_or(N), arguments.transpose_batch_sequence, layout);
  const DotProductAttention module(arguments);
  const nn::Lengths lengths = padding ? x.lengths() : nn::Lengths{};
  module(view_of(x.query), view_of(x.key), view_of(x.value), view_of(x.out), x.lse_view(), lengths);
  module.backward(view_of(x.query), view_of(x.key), view_of(x.value), view_of(x.out), x.lse_view(), view_of(x.grad_out),
                  {.query = view_of(x.grad_query), .key = view_of(x.grad_key), .value = view_of(x.grad_value)}, lengths);
  const auto got = x.written();
  const auto got_lse = x.lse;
  const auto got_wide_lse = x.wide_lse;

  x.forget();
  Options plain = options;
  plain.query_lengths = lengths.query;
  plain.key_lengths = lengths.key;
  attention(x.plain(x.query), x.plain(x.key), x.plain(x.value), x.plain(x.out), x.lse_view(), plain);
  attention_backward(x.plain(x.query), x.plain(x.key), x.plain(x.value), x.plain(x.out), x.lse_view(), x.plain(x.grad_out),
                     x.plain(x.grad_query), x.plain(x.grad_key), x.plain(x.grad_value), plain);
  EXPECT_EQ(x.written(), got);
  EXPECT_EQ(x.lse, got_lse);
  EXPECT_EQ(x.wide_lse, got_wide_lse);

  // Without lse the output is the same.
  x.forget();
  module(view_of(x.query), view_of(x.key), view_of(x.value), view_of(x.out), lengths);
  EXPECT_EQ(x.out.element_bytes(), got[0]);
}

TEST(Module, EqualsThePlainCallsForEveryMaskTypeElementTypeGroupingAndLayout) {
  for (const Meaning& meaning : meanings) {
    for (const dhyan_dtype dtype : {DHYAN_F64, DHYAN_F32, DHYAN_F16, DHYAN_BF16}) {
      for (const std::int64_t groups : {N, std::int64_t{2}, std::int64_t{1}}) {
        for (const bool transposed : {false, true}) {
          SCOPED_TRACE(std::string(nn::name_of(meaning.type)) + ", dtype " + std::to_string(dtype) + ", " +
                       std::to_string(groups) + " groups" + (transposed ? ", transposed" : ""));
          expect_same({.head_dim = H,
                       .num_attention_heads = N,
                       .num_gqa_groups = groups,
                       .attn_mask_type = meaning.type,
                       .transpose_batch_sequence = transposed},
                      {.causal = meaning.causal}, meaning.padding, dtype);
        }
      }
    }
  }
}

TEST(Module, WindowScaleImplementationAndStridesAreThePlainCalls) {
  for (const Meaning& meaning : meanings) {
    for (const Implementation implementation : {Implementation::reference, Implementation::naive, Implementation::fused}) {
      for (const bool transposed : {false, true}) {
        SCOPED_TRACE(nn::name_of(meaning.type));
        expect_same({.head_dim = H,
                     .num_attention_heads = N,
                     .attn_mask_type = meaning.type,
                     .transpose_batch_sequence = transposed,
                     .scale_factor = 0.7,
                     .window_size = {.left = 3, .right = 1},
                     .implementation = implementation,
                     .threads = 1},
                    {.causal = meaning.causal,
                     .window = {.left = 3, .right = 1},
                     .scale = 0.7,
                     .implementation = implementation,
                     .threads = 1},
                    meaning.padding, DHYAN_BF16, Layout::gaps);
      }
    }
  }
}

// So that the comparisons above compare something: every argument has its own result.
TEST(Module, EveryArgumentMatters) {
  std::set<std::vector<double>> results;
  std::size_t calls = 0;
  const auto call = [&](const Arguments& arguments, bool padding) {
    Tensors x(DHYAN_F32, N, false);
    DotProductAttention module(arguments);
    module(view_of(x.query), view_of(x.key), view_of(x.value), view_of(x.out), padding ? x.lengths() : nn::Lengths{});
    results.insert(x.out.values());
    ++calls;
  };
  for (const Meaning& meaning : meanings) {
    call({.head_dim = H, .num_attention_heads = N, .attn_mask_type = meaning.type}, meaning.padding);
  }
  call({.head_dim = H, .num_attention_heads = N, .scale_factor = 0.0}, false);
  call({.head_dim = H, .num_attention_heads = N, .window_size = {.left = 1}}, false);
  call({.head_dim = H, .num_attention_heads = N, .attn_mask_type = AttnMaskType::no_mask, .window_size = {.right = 1}}, false);
  EXPECT_EQ(results.size(), calls);

  const Tensors x(DHYAN_F32, N, false);
  const DotProductAttention module(
      {.head_dim = H, .num_attention_heads = N, .implementation = Implementation::naive, .threads = 3});
  const Problem problem = module.problem(view_of(x.query), view_of(x.key), view_of(x.value), view_of(x.out));
  EXPECT_EQ(problem.options.threads, 3);
  EXPECT_EQ(Plan::forward(problem).implementation(), Implementation::naive);
}

TEST(Module, CausalAndAsManyGroupsAsHeadsAreTheDefault) {
  expect_same({.head_dim = H, .num_attention_heads = N}, {.causal = Causal::top_left}, false, DHYAN_F32);
}

TEST(Module, TransposedTensorsGiveTheTransposedResult) {
  Tensors x(DHYAN_F32, N, false), y(DHYAN_F32, N, true);
  for (const auto& [from, to] : {std::pair{&x.query, &y.query}, {&x.key, &y.key}, {&x.value, &y.value}}) {
    to->fill([&, from = from](auto t, auto b, auto n, auto h) { return from->get(b, t, n, h); });
  }
  Arguments arguments = {.head_dim = H, .num_attention_heads = N};
  DotProductAttention{arguments}(view_of(x.query), view_of(x.key), view_of(x.value), view_of(x.out), x.lse_view());
  arguments.transpose_batch_sequence = true;
  DotProductAttention{arguments}(view_of(y.query), view_of(y.key), view_of(y.value), view_of(y.out), y.lse_view());
  for (std::int64_t b = 0; b < B; ++b) {
    for (std::int64_t t = 0; t < T; ++t) {
      for (std::int64_t n = 0; n < N; ++n) {
        for (std::int64_t h = 0; h < H; ++h) EXPECT_EQ(x.out.get(b, t, n, h), y.out.get(t, b, n, h));
      }
    }
  }
  EXPECT_EQ(x.lse, y.lse);
}

TEST(Module, GradientsThatAreNotAskedForAreNotComputed) {
  Tensors x(DHYAN_F32, N, true);
  const DotProductAttention module({.head_dim = H, .num_attention_heads = N, .transpose_batch_sequence = true});
  module(view_of(x.query), view_of(x.key), view_of(x.value), view_of(x.out), x.lse_view());
  const Bytes untouched = x.grad_query.element_bytes();
  module.backward(view_of(x.query), view_of(x.key), view_of(x.value), view_of(x.out), x.lse_view(), view_of(x.grad_out),
                  {.key = view_of(x.grad_key)});
  EXPECT_EQ(x.grad_query.element_bytes(), untouched);
  EXPECT_EQ(x.grad_value.element_bytes(), x.value.like().element_bytes());
  EXPECT_FALSE(std::isnan(x.grad_key.get(0, 0, 0, 0)));
}

TEST(Module, EverySpellingOfAMaskTypeIsRead) {
  const std::pair<const char*, AttnMaskType> spellings[] = {
      {"no_mask", AttnMaskType::no_mask},
      {"padding", AttnMaskType::padding},
      {"causal", AttnMaskType::causal},
      {"padding_causal", AttnMaskType::padding_causal},
      {"causal_padding", AttnMaskType::padding_causal},
      {"causal_bottom_right", AttnMaskType::causal_bottom_right},
      {"bottom_right_causal", AttnMaskType::causal_bottom_right},
      {"padding_causal_bottom_right", AttnMaskType::padding_causal_bottom_right},
      {"causal_padding_bottom_right", AttnMaskType::padding_causal_bottom_right},
      {"bottom_right_causal_padding", AttnMaskType::padding_causal_bottom_right},
      {"bottom_right_padding_causal", AttnMaskType::padding_causal_bottom_right},
  };
  for (const auto& [text, type] : spellings) EXPECT_EQ(nn::parse_attn_mask_type(text), type) << text;
  for (const Meaning& meaning : meanings) EXPECT_EQ(nn::parse_attn_mask_type(nn::name_of(meaning.type)), meaning.type);
}

std::string sentence_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::invalid_argument);
    return error.what();
  }
  return "(taken)";
}

TEST(Module, WrongArgumentsAreNamed) {
  const std::pair<Arguments, const char*> wrong[] = {
      {{.num_attention_heads = N}, "head_dim: 0, it must be at least 1"},
      {{.head_dim = H, .num_attention_heads = -2}, "num_attention_heads: -2, it must be at least 1"},
      {{.head_dim = H, .num_attention_heads = 8, .num_gqa_groups = 3},
       "num_gqa_groups: 3, it must divide num_attention_heads, 8"},
      {{.head_dim = H, .num_attention_heads = 8, .num_gqa_groups = 0},
       "num_gqa_groups: 0, it must divide num_attention_heads, 8"},
      {{.head_dim = H, .num_attention_heads = 8, .scale_factor = std::numeric_limits<double>::quiet_NaN()},
       "scale_factor: nan, it must be finite"},
      {{.head_dim = H, .num_attention_heads = 8, .window_size = {.left = 4, .right = -2}},
       "window_size: (4, -2), each must be -1 (unlimited) or a count of keys"},
      {{.head_dim = H, .num_attention_heads = 8, .attn_mask_type = static_cast<AttnMaskType>(17)},
       "attn_mask_type: 17, it must be one of AttnMaskType"},
  };
  for (const auto& [arguments, sentence] : wrong) {
    EXPECT_EQ(sentence_of([&arguments = arguments] { DotProductAttention module(arguments); }), sentence);
  }
  EXPECT_EQ(sentence_of([] { nn::parse_attn_mask_type("Causal"); }),
            "attn_mask_type: 'Causal', it must be one of no_mask, padding, causal, padding_causal, causal_padding, "
            "causal_bottom_right, bottom_right_causal, padding_causal_bottom_right, causal_padding_bottom_right, "
            "bottom_right_causal_padding, bottom_right_padding_causal");
}

TEST(Module, WrongTensorsAreNamed) {
  Tensors x(DHYAN_F32, 2, false);
  const TensorView query = view_of(x.query), key = view_of(x.key), value = view_of(x.value), out = view_of(x.out);
  const auto with = [&](Arguments arguments, const TensorView& q, const TensorView& k, const TensorView& v, const TensorView& o,
                        const nn::Lengths& lengths = {}) {
    return sentence_of([&] { DotProductAttention{arguments}(q, k, v, o, lengths); });
  };
  const Arguments fits = {.head_dim = H, .num_attention_heads = N, .num_gqa_groups = 2};
  ASSERT_EQ(with(fits, query, key, value, out), "(taken)");

  EXPECT_EQ(with({.head_dim = 16, .num_attention_heads = N, .num_gqa_groups = 2}, query, key, value, out),
            "query: shape [2, 7, 4, 8], dimension 3 must be head_dim, 16");
  EXPECT_EQ(with({.head_dim = H, .num_attention_heads = 8, .num_gqa_groups = 2}, query, key, value, out),
            "query: shape [2, 7, 4, 8], dimension 2 must be num_attention_heads, 8");
  EXPECT_EQ(with({.head_dim = H, .num_attention_heads = N}, query, key, value, out),
            "key: shape [2, 9, 2, 8], dimension 2 must be num_gqa_groups, 4");
  EXPECT_EQ(with(fits, query, TensorView(key.data(), DType::f32, std::vector<std::int64_t>{B, S, 2, 4}), value, out),
            "key: shape [2, 9, 2, 4], dimension 3 must be head_dim, 8");
  EXPECT_EQ(with(fits, query, key, TensorView(value.data(), DType::f32, std::vector<std::int64_t>{B, S, 1, H}), out),
            "value: shape [2, 9, 1, 8], dimension 2 must be num_gqa_groups, 2");
  EXPECT_EQ(with(fits, query, {}, value, out), "key: absent, every call needs it");
  const std::vector<std::int64_t> rank_three = {T, N, H};
  EXPECT_EQ(with(fits, TensorView(query.data(), DType::f32, rank_three), key, value, out),
            "query: shape [7, 4, 8], it must have 4 dimensions [batch, length, heads, head_dim]");
  Arguments transposed = fits;
  transposed.transpose_batch_sequence = true;
  EXPECT_EQ(with(transposed, query, key, value, TensorView(out.data(), DType::f32, rank_three)),
            "out: shape [7, 4, 8], it must have 4 dimensions [length, batch, heads, head_dim]");
  // What the module does not know of, the library refuses.
  EXPECT_EQ(with(fits, query, key, value, TensorView(out.data(), DType::f32, std::vector<std::int64_t>{B, T, N, 4})),
            "out: shape [2, 7, 4, 4], dimension 3 (value head_dim) must be 8");

  for (const Meaning& meaning : meanings) {
    Arguments arguments = fits;
    arguments.attn_mask_type = meaning.type;
    const std::string type(nn::name_of(meaning.type));
    const nn::Lengths both = x.lengths();
    if (meaning.padding) {
      const std::string rule = "absent, attn_mask_type " + type + " needs the lengths of query and of key";
      EXPECT_EQ(with(arguments, query, key, value, out, {.key = both.key}), "lengths.query: " + rule);
      EXPECT_EQ(with(arguments, query, key, value, out, {.query = both.query}), "lengths.key: " + rule);
    } else {
      const std::string rule = "given with attn_mask_type " + type + ", only the padding types have lengths";
      EXPECT_EQ(with(arguments, query, key, value, out, {.query = both.query}), "lengths.query: " + rule);
      EXPECT_EQ(with(arguments, query, key, value, out, {.key = both.key}), "lengths.key: " + rule);
    }
  }
  EXPECT_EQ(sentence_of([&] {
              DotProductAttention{fits}.backward(query, key, value, out, x.lse_view(), view_of(x.grad_out),
                                                 {.sink = x.lse_view()});
            }),
            "grad_sink: given without a sink, there is nothing to take the gradient of");
}

}  // namespace
}  // namespace dhyan::testing

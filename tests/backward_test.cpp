// SPDX-License-Identifier: Apache-2.0
// The fused backward pass against the reference, option by option and in pairs, and the same bits for every number of threads.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "cpu/fused.hpp"
#include "reference/reference.hpp"
#include "support/bounds.hpp"
#include "support/case.hpp"
#include "support/compare.hpp"
#include "support/random.hpp"

namespace dhyan::testing {
namespace {

const core::ImplementationEntry kBackward{
    DHYAN_FUSED,
    "fused backward",
    DHYAN_CPU,
    [](const dhyan_device_description&) { return std::string(); },
    [](const core::Problem&, const dhyan_device_description&) { return std::optional<std::string>(); },
    cpu::plan_fused_backward};

void expect_matches_reference(const Case& c) {
  SCOPED_TRACE(describe(c));
  const Instance x(c, Random(describe(c)));
  const Forward given = forward(reference::entry, x);
  const Backward want = exact_backward(x, given);
  const Backward got = backward(kBackward, x, given);
  const BackwardBounds bounds = backward_bounds(x, given, want);
  const auto expect = [](const char* what, const Array& g, const Array& w, const Bound& bound) {
    EXPECT_EQ(g.present(), w.present()) << what;
    if (w.present()) {
      EXPECT_TRUE(within(g, w, bound)) << what;
    }
  };
  expect("grad_query", got.grad_query, want.grad_query, bounds.grad_query);
  expect("grad_key", got.grad_key, want.grad_key, bounds.grad_key);
  expect("grad_value", got.grad_value, want.grad_value, bounds.grad_value);
  expect("grad_bias", got.grad_bias, want.grad_bias, bounds.grad_bias);
  expect("grad_sink", got.grad_sink, want.grad_sink, bounds.grad_sink);
}

// The options a problem can have, each as what it does to a plain one.
struct Option {
  const char* name;
  std::function<void(Case&)> apply;
};

const std::vector<Option>& options() {
  static const std::vector<Option> all = {
      {"plain", [](Case&) {}},
      {"bf16", [](Case& c) { c.dtype = DHYAN_BF16; }},
      {"f16", [](Case& c) { c.dtype = DHYAN_F16; }},
      {"causal", [](Case& c) { c.causal = DHYAN_CAUSAL_TOP_LEFT; }},
      {"bottom_right", [](Case& c) { c.causal = DHYAN_CAUSAL_BOTTOM_RIGHT; }},
      {"window", [](Case& c) { c.window_left = 40, c.window_right = 9; }},
      {"window_left", [](Case& c) { c.window_left = 70; }},
      {"scale", [](Case& c) { c.scale = -0.3; }},
      {"softcap", [](Case& c) { c.softcap = 2; }},
      {"bias", [](Case& c) { c.bias = DHYAN_F32, c.grad_bias = true; }},
      {"bias_batch",
       [](Case& c) {
         c.bias = DHYAN_F32, c.bias_broadcast = {true, false, false, false}, c.grad_bias = true;
       }},
      {"bias_rows",
       [](Case& c) {
         c.bias = DHYAN_BF16, c.bias_broadcast = {false, false, true, false}, c.grad_bias = true;
       }},
      {"bias_columns",
       [](Case& c) {
         c.bias = DHYAN_F16, c.bias_broadcast = {true, false, false, true}, c.grad_bias = true;
       }},
      {"bias_infinite", [](Case& c) { c.bias = DHYAN_F32, c.bias_minus_infinity = 0.3, c.grad_bias = true; }},
      {"mask",
       [](Case& c) {
         c.mask = true, c.mask_broadcast = {false, true, false, false};
       }},
      {"alibi", [](Case& c) { c.slopes = Slopes::per_batch_and_head; }},
      {"sink", [](Case& c) { c.sink = c.grad_sink = true; }},
      {"lengths",
       [](Case& c) {
         c.query_lengths = {5, c.query_length}, c.key_lengths = {c.key_length, 70};
       }},
      {"empty_sequences",
       [](Case& c) {
         c.query_lengths = {0, -3}, c.key_lengths = {9, 0};
       }},
      {"packed",
       [](Case& c) {
         c.packed = true, c.query_lengths = {67, 30}, c.key_lengths = {140, 3};
       }},
      {"gaps",
       [](Case& c) {
         c.packed = true, c.packing_gap = 3, c.query_lengths = {67, 30}, c.key_lengths = {40, 150};
       }},
      {"dropout", [](Case& c) { c.dropout = 0.3, c.dropout_seed = 7, c.key_origin = 2, c.query_origin = 5; }},
      {"grad_lse", [](Case& c) { c.grad_lse = true; }},
      {"strides", [](Case& c) { c.layout = Layout::unaligned; }},
      {"shared_batch", [](Case& c) { c.layout = Layout::shared_batch; }},
      {"query_only", [](Case& c) { c.grad_key = c.grad_value = false; }},
      {"key_only", [](Case& c) { c.grad_query = c.grad_value = false; }},
      {"value_only", [](Case& c) { c.grad_query = c.grad_key = false; }},
  };
  return all;
}

Case base() {
  Case c;
  c.query_length = 75;
  c.key_length = 150;
  c.query_heads = 2, c.key_heads = 1;
  c.value_head_dim = 40;
  return c;
}

// Bottom-right knows no origins.
bool compatible(const Case& c) {
  const bool origin = c.query_origin != 0 || c.key_origin != 0;
  return !(c.causal == DHYAN_CAUSAL_BOTTOM_RIGHT && origin);
}

TEST(Backward, MatchesTheReferenceForEachOptionAndEachPair) {
  for (std::size_t i = 0; i < options().size(); ++i) {
    for (std::size_t j = i; j < options().size(); ++j) {
      Case c = base();
      options()[i].apply(c);
      options()[j].apply(c);
      c.name = std::string(options()[i].name) + " + " + options()[j].name;
      if (compatible(c)) expect_matches_reference(c);
    }
  }
}

TEST(Backward, MatchesTheReferenceForAwkwardSizes) {
  for (const dhyan_dtype dtype : {DHYAN_F32, DHYAN_BF16}) {
    for (const std::int64_t length : {1, 2, 63, 64, 65, 96, 127, 257, 520}) {
      for (const std::int64_t head_dim : {1, 3, 16, 65, 128}) {
        Case c;
        c.dtype = dtype;
        c.batch = 1;
        c.query_length = length;
        c.key_length = 321 - std::min<std::int64_t>(length, 320);
        c.head_dim = head_dim;
        c.value_head_dim = 66 - std::min<std::int64_t>(head_dim, 65);
        expect_matches_reference(c);
        std::swap(c.query_length, c.key_length);
        c.causal = DHYAN_CAUSAL_BOTTOM_RIGHT;
        expect_matches_reference(c);
      }
    }
  }
}

TEST(Backward, MatchesTheReferenceForTheLargestHeads) {
  for (const auto& [head_dim, value_head_dim] : {std::pair{512, 512}, {192, 128}, {256, 1}, {80, 300}}) {
    Case c;
    c.batch = 1, c.query_heads = 2, c.key_heads = 1;
    c.query_length = 70, c.key_length = 130;
    c.head_dim = head_dim, c.value_head_dim = value_head_dim;
    c.causal = DHYAN_CAUSAL_TOP_LEFT;
    expect_matches_reference(c);
    c.dtype = DHYAN_BF16;
    expect_matches_reference(c);
  }
}

TEST(Backward, SumsTheBiasGradientOverEveryChoiceOfBroadcastDimensions) {
  for (int choice = 0; choice < 16; ++choice) {
    for (const bool packed : {false, true}) {
      Case c;
      c.query_length = 90, c.key_length = 150;
      c.packed = packed;
      if (packed) c.query_lengths = {90, 66}, c.key_lengths = {20, 150};
      c.bias = DHYAN_F32, c.grad_bias = true;
      for (std::size_t i = 0; i < 4; ++i) c.bias_broadcast[i] = (choice >> i) & 1;
      c.softcap = 3, c.causal = DHYAN_CAUSAL_TOP_LEFT;
      expect_matches_reference(c);
      c.grad_query = c.grad_key = c.grad_value = false;
      expect_matches_reference(c);
    }
  }
}

TEST(Backward, ZeroSizesLeaveZeroGradients) {
  for (int choice = 0; choice < 4; ++choice) {
    Case c;
    c.bias = DHYAN_F32, c.grad_bias = true, c.bias_broadcast = {true, false, true, false};
    c.sink = c.grad_sink = true;
    if (choice == 0) c.batch = 0;
    if (choice == 1) c.query_length = 0;
    if (choice == 2) c.key_length = 0;
    if (choice == 3) c.query_heads = c.key_heads = 0;
    expect_matches_reference(c);
  }
}

TEST(Backward, FarLogitsStayFinite) {
  for (const dhyan_dtype dtype : {DHYAN_F32, DHYAN_BF16, DHYAN_F16}) {
    for (const double shift : {-30.0, 30.0, -300.0}) {
      Case c;
      c.dtype = dtype;
      c.query_length = 33, c.key_length = 129;
      c.offset = shift;
      c.causal = DHYAN_CAUSAL_BOTTOM_RIGHT;
      expect_matches_reference(c);
      c.query_length = 1, c.key_length = 128, c.causal = DHYAN_CAUSAL_OFF;
      expect_matches_reference(c);
    }
  }
}

TEST(Backward, HasTheSameBitsForEveryNumberOfThreads) {
  for (const std::size_t option : {0, 1, 2, 3, 5, 10, 11, 12, 19, 21}) {
    Case c = base();
    c.key_length = 1100;
    c.sink = c.grad_sink = true;
    options()[option].apply(c);
    c.name = options()[option].name;
    SCOPED_TRACE(describe(c));
    const Instance x(c, Random(describe(c)));
    const Forward given = forward(reference::entry, x);
    const Backward once = backward(kBackward, x, given, 1);
    for (const int threads : {1, 2, 3, 7}) {
      for (int repeat = 0; repeat < 5; ++repeat) {
        const Backward again = backward(kBackward, x, given, threads);
        EXPECT_TRUE(same_bits(again.grad_query, once.grad_query)) << threads << " threads, grad_query";
        EXPECT_TRUE(same_bits(again.grad_key, once.grad_key)) << threads << " threads, grad_key";
        EXPECT_TRUE(same_bits(again.grad_value, once.grad_value)) << threads << " threads, grad_value";
        if (c.grad_bias) {
          EXPECT_TRUE(same_bits(again.grad_bias, once.grad_bias)) << threads << " threads, grad_bias";
        }
        EXPECT_TRUE(same_bits(again.grad_sink, once.grad_sink)) << threads << " threads, grad_sink";
      }
    }
  }
}

}  // namespace
}  // namespace dhyan::testing

// SPDX-License-Identifier: Apache-2.0
// Problems that other attention libraries got wrong, each named by where it was reported, each against the reference or the
// right answer.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "reference/reference.hpp"
#include "support/check.hpp"
#include "support/compare.hpp"

namespace dhyan::testing {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

Case sized(dhyan_dtype dtype, std::int64_t batch, std::int64_t query_length, std::int64_t key_length, std::int64_t query_heads,
           std::int64_t key_heads, std::int64_t head_dim) {
  Case c;
  c.dtype = dtype;
  c.batch = batch;
  c.query_length = query_length;
  c.key_length = key_length;
  c.query_heads = query_heads;
  c.key_heads = key_heads;
  c.head_dim = c.value_head_dim = head_dim;
  return c;
}

Case packed(dhyan_dtype dtype, const std::vector<std::int64_t>& query_lengths, const std::vector<std::int64_t>& key_lengths,
            std::int64_t query_heads, std::int64_t key_heads, std::int64_t head_dim) {
  Case c = sized(dtype, static_cast<std::int64_t>(query_lengths.size()), 0, 0, query_heads, key_heads, head_dim);
  c.packed = true;
  c.query_lengths = query_lengths;
  c.key_lengths = key_lengths;
  for (const std::int64_t length : query_lengths) c.query_length = std::max(c.query_length, length);
  for (const std::int64_t length : key_lengths) c.key_length = std::max(c.key_length, length);
  return c;
}

constexpr dhyan_dtype fast_types[] = {DHYAN_F32, DHYAN_BF16, DHYAN_F16};

Instance make(const Case& c) { return Instance(c, Random(describe(c))); }

TEST(KnownCases, Pytorch41508_ARowWithNoKeysIsZeroNotNaN) {
  for (const dhyan_dtype dtype : fast_types) {
    Case c = sized(dtype, 2, 66, 130, 2, 2, 64);
    c.mask = true;  // one row of it is all false
    c.mask_broadcast = {true, false};
    check_case(c);
    c.mask_keep = 0;
    c.sink = c.grad_sink = true;
    check_case(c);
  }
}

TEST(KnownCases, CudnnFrontend1072_BackwardIsFiniteWhenLseIsFarBelowZero) {
  for (const dhyan_dtype dtype : {DHYAN_BF16, DHYAN_F32}) {
    for (const std::int64_t s : {128, 704, 70}) {
      for (const std::int64_t t : {1, 65}) {
        Case c = sized(dtype, 1, t, s, 2, 2, 64);
        c.bias = DHYAN_F32;
        c.grad_bias = true;
        c.mask = s != 128;
        c.name = "lse -122";
        Instance x = make(c);
        Random random("spread");
        x.bias.fill([&](auto...) { return -127 + random.normal(); });
        const Forward y = forward(reference::entry, x);
        ASSERT_LT(y.lse.get(0, 0, 1, 0), -88);
        check_case(x);
      }
    }
  }
}

TEST(KnownCases, Pytorch119320_InputsOf10000StayFinite) {
  Case c = sized(DHYAN_F32, 1, 9, 80, 2, 2, 64);
  Instance x = make(c);
  for (Array* input : {&x.query, &x.key, &x.value}) input->fill([](auto...) { return 1e4; });
  check_case(x);
  const Forward y = forward(*implementations().back(), x);
  for (const double v : y.out.values()) EXPECT_NEAR(v, 1e4, 0.1);
}

TEST(KnownCases, LogitsOfPlusMinus10000AreFine) {
  for (const double sign : {1.0, -1.0}) {
    Case c = sized(DHYAN_F32, 1, 20, 140, 2, 1, 16);
    c.bias = DHYAN_F32;
    c.grad_bias = true;
    Instance x = make(c);
    Random random("logits");
    x.bias.fill([&](auto...) { return sign * 1e4 + random.normal(); });
    check_case(x);
  }
}

TEST(KnownCases, Xformers684_TinyHeadDimensionWithAFloatBias) {
  Case c = sized(DHYAN_F32, 83, 43, 32, 2, 2, 8);
  c.bias = DHYAN_F32;
  c.grad_bias = true;
  check_case(c);
}

// Finite-minimum masks as the bias: hidden keys have no weight, and rows of nothing else are means.
TEST(KnownCases, MasksOfTheLeastFiniteNumberAreFine) {
  for (const dhyan_dtype bias : {DHYAN_F32, DHYAN_BF16, DHYAN_F16}) {
    for (const dhyan_dtype dtype : fast_types) {
      Case c = sized(dtype, 1, 70, 100, 2, 2, 32);
      c.bias = bias;
      c.bias_broadcast = {true, true};
      c.name = "finite minimum";
      Instance x = make(c);
      const double least = bias == DHYAN_F16    ? -65504.0
                           : bias == DHYAN_BF16 ? -0x1.FEp127
                                                : static_cast<double>(std::numeric_limits<float>::lowest());
      x.bias.fill([&](auto, auto, std::int64_t t, std::int64_t s) { return s > t || t == 40 ? least : 0.0; });
      check_case(x);
    }
  }
}

// q = k = v = 0 with more than 2^15 positions; a window makes it cheap.
TEST(KnownCases, Xformers719_PositionsPast32768) {
  Case c = sized(DHYAN_F32, 1, 33728, 33728, 1, 1, 4);
  c.window_left = 3;
  c.window_right = 0;
  Instance x = make(c);
  x.query.fill([](auto...) { return 0.0; });
  const core::ImplementationEntry& fused = *implementations().back();
  const Forward y = forward(fused, x);
  for (std::int64_t t = 0; t < c.query_length; t += 7) {
    const std::int64_t first = std::max<std::int64_t>(t - 3, 0);
    ASSERT_NEAR(y.lse.get(0, 0, 0, t), std::log(static_cast<double>(t - first + 1)), 1e-6) << t;
    double mean = 0;
    for (std::int64_t s = first; s <= t; ++s) mean += x.value.get(0, s, 0, 1) / static_cast<double>(t - first + 1);
    ASSERT_NEAR(y.out.get(0, t, 0, 1), mean, 1e-6) << t;
  }
}

TEST(KnownCases, FlashAttention443_PackedRowsWithoutVisibleKeys) {
  for (const dhyan_dtype dtype : fast_types) {
    Case c = packed(dtype, {76, 34, 146}, {1, 1, 1}, 2, 2, 32);
    c.causal = DHYAN_CAUSAL_BOTTOM_RIGHT;
    check_case(c);
  }
}

TEST(KnownCases, Pytorch103082_CausalOfOneQueryFollowsItsAlignment) {
  for (const dhyan_causal causal : {DHYAN_CAUSAL_TOP_LEFT, DHYAN_CAUSAL_BOTTOM_RIGHT}) {
    Case c = sized(DHYAN_F32, 2, 1, 10, 4, 2, 16);
    c.causal = causal;
    check_case(c);
  }
}

TEST(KnownCases, FlashAttention1778_MoreQueriesThanKeysBottomRight) {
  for (const dhyan_dtype dtype : fast_types) {
    Case c = sized(dtype, 1, 128, 64, 2, 2, 64);
    c.causal = DHYAN_CAUSAL_BOTTOM_RIGHT;
    check_case(c);
  }
}

TEST(KnownCases, Pytorch146704_BatchesAndHeadsPast65535) {
  Case c = sized(DHYAN_F16, 65537, 2, 3, 1, 1, 4);
  check_case(c);
  c = sized(DHYAN_F32, 1, 2, 3, 71280, 71280, 4);
  c.causal = DHYAN_CAUSAL_TOP_LEFT;
  check_case(c);
}

TEST(KnownCases, FlashAttention1537_ZeroLengthsWithGroupsAndOneQuery) {
  check_case(packed(DHYAN_BF16, {0, 1, 0, 1}, {0, 3, 0, 5}, 9, 3, 64));
}

// An eighth of the reported lengths.
TEST(KnownCases, FlashAttention2562_PackedBackwardOfHeads256WithEmptyFirstSequence) {
  for (const dhyan_causal causal : {DHYAN_CAUSAL_OFF, DHYAN_CAUSAL_BOTTOM_RIGHT}) {
    Case c = packed(DHYAN_BF16, {0, 151, 105, 0}, {317, 218, 105, 384}, 4, 1, 256);
    c.causal = causal;
    check_case(c);
  }
}

TEST(KnownCases, FlashAttention1155_PackedSequencesWithoutKeys) {
  check_case(packed(DHYAN_F32, {5, 70, 3}, {9, 0, 66}, 2, 2, 32));
}

TEST(KnownCases, FlashAttention2470_NoKeysAtAll) {
  for (const dhyan_causal causal : {DHYAN_CAUSAL_OFF, DHYAN_CAUSAL_TOP_LEFT, DHYAN_CAUSAL_BOTTOM_RIGHT}) {
    Case c = sized(DHYAN_BF16, 3, 65, 0, 4, 2, 64);
    c.causal = causal;
    check_case(c);
  }
}

TEST(KnownCases, FlashAttention1619_FewerTokensThanSequences) {
  check_case(packed(DHYAN_F16, {0, 0, 0, 1}, {0, 0, 0, 1}, 21, 7, 120));
}

TEST(KnownCases, FlashAttention1713_KeysThatNoQueryReadsHaveZeroGradients) {
  Case c = packed(DHYAN_F32, {150, 0, 150}, {100, 100, 100}, 2, 2, 32);
  const Instance x = make(c);
  check_case(x);
  const Forward y = rounded(x, exact_forward(x));
  for (const core::ImplementationEntry* entry : implementations()) {
    const Backward g = backward(*entry, x, y);
    for (std::int64_t s = 100; s < 200; ++s) {
      for (std::int64_t h = 0; h < 32; ++h) {
        ASSERT_EQ(g.grad_key.get(0, s, 1, h), 0);
        ASSERT_EQ(g.grad_value.get(0, s, 1, h), 0);
      }
    }
  }
}

TEST(KnownCases, FlashAttention2333_LongestLengthsStatedTooLarge) {
  Case c = packed(DHYAN_BF16, {17, 40}, {70, 5}, 4, 2, 40);
  c.query_length = 300;
  c.key_length = 500;
  check_case(c);
  c.bias = DHYAN_F32;
  c.grad_bias = true;
  c.query_length = 64;
  c.key_length = 96;
  check_case(c);
}

TEST(KnownCases, Xformers808_BiasRowsOf77) {
  for (const dhyan_dtype dtype : fast_types) {
    Case c = sized(dtype, 3, 77, 77, 8, 8, 64);
    c.bias = dtype;
    c.grad_bias = true;
    check_case(c);
  }
}

TEST(KnownCases, Jax39576_AWindowBoundsBothSidesWithoutCausal) {
  for (const dhyan_dtype dtype : fast_types) {
    Case c = sized(dtype, 2, 90, 90, 4, 2, 32);
    c.window_left = 3;
    c.window_right = 0;
    check_case(c);
    c.window_right = 5;
    c.causal = DHYAN_CAUSAL_TOP_LEFT;
    c.query_lengths = {80, 90};
    c.key_lengths = {33, 90};
    check_case(c);
  }
}

TEST(KnownCases, Jax32300_AWindowAloneCountsAndLengthsMayDiffer) {
  Case c = sized(DHYAN_BF16, 2, 204, 208, 2, 2, 64);
  c.window_left = 0;
  c.window_right = 31;
  check_case(c);
  c.window_right = 0;
  check_case(c);
}

TEST(KnownCases, TransformerEngine1197_TheLastKeyOfTheWindowIsVisible) {
  for (const core::ImplementationEntry* entry : implementations()) {
    Case c = sized(DHYAN_F16, 1, 1100, 1100, 1, 1, 64);
    c.window_left = 1024;
    c.window_right = 0;
    Instance x = make(c);
    x.query.fill([](auto...) { return 0.0; });
    const Forward y = forward(*entry, x);
    EXPECT_NEAR(y.lse.get(0, 0, 0, 1024), std::log(1025.0), 1e-5);
    EXPECT_NEAR(y.lse.get(0, 0, 0, 1099), std::log(1025.0), 1e-5);
    EXPECT_NEAR(y.lse.get(0, 0, 0, 1023), std::log(1024.0), 1e-5);
  }
}

TEST(KnownCases, Jax28974_AMaskOfKeysOnly) {
  Case c = sized(DHYAN_BF16, 4, 32, 32, 4, 4, 16);
  c.mask = true;
  c.mask_broadcast = {false, true, true};
  check_case(c);
}

TEST(KnownCases, Jax23349_KeyLengthsAlone) {
  Case c = sized(DHYAN_BF16, 8, 128, 128, 4, 4, 16);
  c.key_lengths = {24, 125, 53, 28, 77, 96, 13, 114};
  check_case(c);
}

TEST(KnownCases, Jax23701_TheGradientOfEveryShapeOfBias) {
  for (int shape = 0; shape < 16; ++shape) {
    for (const dhyan_dtype dtype : {DHYAN_F32, DHYAN_BF16}) {
      Case c = sized(dtype, 2, 33, 70, 8, 4, 16);
      c.bias = DHYAN_F32;
      c.grad_bias = true;
      for (int i = 0; i < 4; ++i) c.bias_broadcast[static_cast<std::size_t>(i)] = (shape >> i) & 1;
      check_case(c);
    }
  }
}

TEST(KnownCases, Jax39521_PackedGroupsReadTheirOwnKeys) {
  check_case(packed(DHYAN_BF16, {30, 70, 28}, {30, 70, 28}, 4, 2, 32));
  check_case(packed(DHYAN_F32, {30, 70, 28}, {31, 17, 90}, 32, 8, 16));
}

TEST(KnownCases, Jax30023_UnusedSequencesMayHaveNegativeLengths) {
  Case c = packed(DHYAN_F32, {5, -1, 66, -1}, {70, -1, 3, 0}, 4, 2, 24);
  c.packing_gap = 2;
  check_case(c);
}

TEST(KnownCases, Maxtext4476_PackedCausalDoesNotLeakAcrossTheBoundary) {
  const Case whole = [] {
    Case c = packed(DHYAN_F32, {40, 60}, {40, 60}, 2, 2, 16);
    c.causal = DHYAN_CAUSAL_TOP_LEFT;
    return c;
  }();
  Instance x = make(whole);
  check_case(x);
  for (const core::ImplementationEntry* entry : implementations()) {
    const Forward y = forward(*entry, x);
    for (std::int64_t h = 0; h < 16; ++h) EXPECT_FLOAT_EQ(y.out.get(0, 40, 1, h), x.value.get(0, 40, 1, h));  // one key
  }
}

TEST(KnownCases, Marin5749_PackedWithTailPaddingEqualsRowByRow) {
  Case c = packed(DHYAN_BF16, {64, 31, 9, 100}, {64, 31, 9, 100}, 4, 4, 32);
  c.packing_gap = 25;
  c.causal = DHYAN_CAUSAL_TOP_LEFT;
  c.query_length = c.key_length = 128;
  check_case(c);
}

TEST(KnownCases, TransformerEngine3249_PackedSinkWithValueDimensionsOfTheirOwn) {
  const std::int64_t dims[][2] = {{192, 128}, {128, 192}, {192, 192}};
  for (const auto& dim : dims) {
    Case c = packed(DHYAN_BF16, {40, 0, 33}, {66, 7, 33}, 4, 2, dim[0]);
    c.value_head_dim = dim[1];
    c.sink = c.grad_sink = true;
    check_case(c);
  }
}

TEST(KnownCases, CudnnFrontend981_OneOutOfManyKeysInBf16) {
  Case c = sized(DHYAN_BF16, 1, 2, 62208, 2, 1, 64);
  c.grad_query = c.grad_key = c.grad_value = false;
  check_case(c);
  c = sized(DHYAN_BF16, 1, 40, 300, 32, 2, 256);
  check_case(c);
}

TEST(KnownCases, Jax40128_TheSinkGradientIsSummedInFullPrecision) {
  Case c = sized(DHYAN_BF16, 2, 2000, 5, 2, 2, 8);
  c.sink = c.grad_sink = c.grad_lse = true;
  check_case(c);
}

TEST(KnownCases, AScaleThatFloat32RoundsToZeroIsZero) {
  for (const dhyan_dtype dtype : fast_types) {
    Case c = sized(dtype, 1, 66, 70, 2, 1, 32);
    c.scale = 1e-300;
    check_case(c);
    c.query_length = 1;
    check_case(c);
  }
}

// Non-finite values that a query sees spread as arithmetic says; where they do not belong they stay away.
TEST(KnownCases, NaNReachesTheRowsThatSeeItAndNoOther) {
  for (const dhyan_dtype dtype : fast_types) {
    Case c = sized(dtype, 2, 70, 140, 2, 2, 32);
    c.grad_query = c.grad_key = c.grad_value = false;
    Instance x = make(c);
    x.query.set(0, 66, 1, 3, std::nan(""));
    check_case(x);
    Instance y = make(c);
    y.key.set(1, 139, 0, 31, std::nan(""));
    check_case(y);
    Instance z = make(c);
    z.value.set(1, 3, 0, 7, infinity);
    check_case(z);
  }
}

TEST(KnownCases, ScoresFitAsLongAsScaledOnesDo) {
  for (const dhyan_dtype dtype : {DHYAN_F32, DHYAN_BF16}) {
    Case c = sized(dtype, 1, 20, 70, 2, 2, 64);
    c.scale = 1e-38;
    c.spread = 1e19;  // q . k is 1e39, which f32 cannot hold
    check_case(c);
  }
}

TEST(KnownCases, AScaleAboveOneOverflowsNoOperand) {
  for (const bool large_query : {true, false}) {
    for (const std::int64_t keys : {70, 1100}) {
      Case c = sized(DHYAN_F32, 1, 20, keys, 2, 2, 64);
      c.scale = 1e7;
      c.grad_query = c.grad_key = false;  // theirs do overflow
      Instance instance = make(c);
      Random random(describe(c));
      const auto near_one = [&] { return 1 + 0.003 * random.normal(); };  // weights stay far above the smallest float
      instance.query.fill([&](auto...) { return near_one() * (large_query ? 1e32 : 1e-37); });
      instance.key.fill([&](auto...) { return near_one() * (large_query ? 1e-37 : 1e32); });
      check_case(instance);
    }
  }
  Case c = sized(DHYAN_F32, 1, 20, 1100, 2, 2, 64);  // dQ summed over several chunks of keys
  c.scale = 3;
  check_case(c);
}

}  // namespace
}  // namespace dhyan::testing

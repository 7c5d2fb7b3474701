// SPDX-License-Identifier: Apache-2.0
// Problems whose answer is known without computing attention.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/philox.hpp"
#include "reference/reference.hpp"
#include "support/case.hpp"

namespace dhyan::testing {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

Case small() {
  Case c;
  c.dtype = DHYAN_F64;
  c.query_length = 5;
  c.key_length = 7;
  c.head_dim = 3;
  c.value_head_dim = 4;
  return c;
}

Instance make(const Case& c) { return Instance(c, Random(::testing::UnitTest::GetInstance()->current_test_info()->name())); }

// The value rows that query head n reads.
double value_at(const Instance& x, std::int64_t b, std::int64_t s, std::int64_t n, std::int64_t h) {
  return x.value.get(b, s, n / x.problem.group(), h);
}

// Expects every query to see exactly keys [first(t), last(t)] with equal weights.
template <class First, class Last>
void expect_means(const Instance& x, const First& first, const Last& last) {
  const Forward y = forward(reference::entry, x);
  const auto& shape = y.out.shape();
  for (std::int64_t b = 0; b < shape[0]; ++b)
    for (std::int64_t t = 0; t < shape[1]; ++t)
      for (std::int64_t n = 0; n < shape[2]; ++n) {
        const std::int64_t count = std::max<std::int64_t>(last(t) - first(t) + 1, 0);
        for (std::int64_t h = 0; h < shape[3]; ++h) {
          double mean = 0;
          for (std::int64_t s = first(t); s <= last(t); ++s) mean += value_at(x, b, s, n, h) / static_cast<double>(count);
          EXPECT_NEAR(y.out.get(b, t, n, h), mean, 1e-14) << "t " << t;
        }
        const double lse = y.lse.get(b, 0, n, t);
        if (count == 0) {
          EXPECT_EQ(lse, -infinity);
        } else {
          EXPECT_NEAR(lse, std::log(static_cast<double>(count)), 1e-14);
        }
      }
}

// All logits 0, so that only what is visible matters.
Case equal_logits() {
  Case c = small();
  c.scale = 0;
  return c;
}

TEST(ClosedForm, ScaleZeroGivesTheMeanOfTheValues) {
  expect_means(
      make(equal_logits()), [](auto) { return 0; }, [](auto) { return 6; });
}

TEST(ClosedForm, CausalTopLeftSeesKeysUpToTheQuery) {
  Case c = equal_logits();
  c.causal = DHYAN_CAUSAL_TOP_LEFT;
  expect_means(
      make(c), [](auto) { return 0; }, [](std::int64_t t) { return t; });
}

TEST(ClosedForm, CausalTopLeftWithMoreQueriesThanKeysSeesAllKeysInTheEnd) {
  Case c = equal_logits();
  c.causal = DHYAN_CAUSAL_TOP_LEFT;
  c.query_length = 9;
  expect_means(
      make(c), [](auto) { return 0; }, [](std::int64_t t) { return std::min<std::int64_t>(t, 6); });
}

TEST(ClosedForm, CausalBottomRightAlignsTheLastQueryWithTheLastKey) {
  Case c = equal_logits();
  c.causal = DHYAN_CAUSAL_BOTTOM_RIGHT;
  expect_means(
      make(c), [](auto) { return 0; }, [](std::int64_t t) { return t + 2; });
}

TEST(ClosedForm, CausalBottomRightWithMoreQueriesThanKeysLeavesTheFirstRowsEmpty) {
  Case c = equal_logits();
  c.causal = DHYAN_CAUSAL_BOTTOM_RIGHT;
  c.query_length = 10;
  expect_means(
      make(c), [](auto) { return 0; }, [](std::int64_t t) { return t - 3; });
}

TEST(ClosedForm, OneQueryBottomRightSeesTheWholeCacheAndTopLeftItsFirstKey) {
  Case c = equal_logits();
  c.query_length = 1;
  c.causal = DHYAN_CAUSAL_BOTTOM_RIGHT;
  expect_means(
      make(c), [](auto) { return 0; }, [](auto) { return 6; });
  c.causal = DHYAN_CAUSAL_TOP_LEFT;
  expect_means(
      make(c), [](auto) { return 0; }, [](auto) { return 0; });
}

TEST(ClosedForm, WindowIsInclusiveOnBothSides) {
  Case c = equal_logits();
  c.window_left = 2;
  c.window_right = 1;
  expect_means(
      make(c), [](std::int64_t t) { return std::max<std::int64_t>(t - 2, 0); },
      [](std::int64_t t) { return std::min<std::int64_t>(t + 1, 6); });
}

TEST(ClosedForm, WindowBoundedOnOneSideOnlyLeavesTheOtherOpen) {
  Case c = equal_logits();
  c.window_left = 3;
  expect_means(
      make(c), [](std::int64_t t) { return std::max<std::int64_t>(t - 3, 0); }, [](auto) { return 6; });
  c.window_left = -1;
  c.window_right = 0;
  expect_means(
      make(c), [](auto) { return 0; }, [](std::int64_t t) { return t; });
}

TEST(ClosedForm, WindowZeroSeesOneKey) {
  Case c = equal_logits();
  c.window_left = c.window_right = 0;
  expect_means(
      make(c), [](std::int64_t t) { return t; }, [](std::int64_t t) { return t; });
}

TEST(ClosedForm, WindowMovesWithTheBottomRightDiagonal) {
  Case c = equal_logits();
  c.causal = DHYAN_CAUSAL_BOTTOM_RIGHT;
  c.window_left = 1;
  expect_means(
      make(c), [](std::int64_t t) { return t + 1; }, [](std::int64_t t) { return t + 2; });
}

TEST(ClosedForm, OriginsMoveTheDiagonalOfAShard) {
  Case c = equal_logits();
  c.causal = DHYAN_CAUSAL_TOP_LEFT;
  c.query_origin = 10;
  c.key_origin = 8;
  expect_means(
      make(c), [](auto) { return 0; }, [](std::int64_t t) { return std::min<std::int64_t>(t + 2, 6); });
}

TEST(ClosedForm, OneKeyGivesItsValueAndItsLogit) {
  Case c = small();
  c.key_length = 1;
  const Instance x = make(c);
  const Forward y = forward(reference::entry, x);
  for (std::int64_t t = 0; t < 5; ++t) {
    double score = 0;
    for (std::int64_t h = 0; h < 3; ++h) score += x.query.get(1, t, 3, h) * x.key.get(1, 0, 1, h);
    EXPECT_NEAR(y.lse.get(1, 0, 3, t), score / std::sqrt(3.0), 1e-14);
    for (std::int64_t h = 0; h < 4; ++h) EXPECT_DOUBLE_EQ(y.out.get(1, t, 3, h), value_at(x, 1, 0, 3, h));
  }
}

TEST(ClosedForm, OneHotKeysPickTheirValues) {
  Case c = small();
  c.query_length = c.key_length = c.head_dim = 6;
  c.scale = 1;
  Instance x = make(c);
  x.query.fill([](auto, std::int64_t t, auto, std::int64_t h) { return t == h ? 1e4 : 0.0; });
  x.key.fill([](auto, std::int64_t s, auto, std::int64_t h) { return s == h ? 1.0 : 0.0; });
  const Forward y = forward(reference::entry, x);
  for (std::int64_t t = 0; t < 6; ++t) {
    EXPECT_DOUBLE_EQ(y.lse.get(0, 0, 0, t), 1e4);
    for (std::int64_t h = 0; h < 4; ++h) EXPECT_DOUBLE_EQ(y.out.get(0, t, 0, h), value_at(x, 0, t, 0, h));
  }
}

TEST(ClosedForm, GroupsOfQueryHeadsReadTheSameKeyHeadInOrder) {
  Case c = equal_logits();
  c.query_heads = 6;
  c.key_heads = 2;
  Instance x = make(c);
  x.value.fill([](auto, auto, std::int64_t head, auto) { return static_cast<double>(head); });
  const Forward y = forward(reference::entry, x);
  for (std::int64_t n = 0; n < 6; ++n) EXPECT_DOUBLE_EQ(y.out.get(0, 0, n, 0), n < 3 ? 0.0 : 1.0);
}

TEST(ClosedForm, SinkIsOneMoreColumnThatHoldsNoValue) {
  Case c = equal_logits();
  c.sink = true;
  Instance x = make(c);
  x.sink.fill([](auto...) { return std::log(7.0f); });
  const Forward y = forward(reference::entry, x);
  double mean = 0;
  for (std::int64_t s = 0; s < 7; ++s) mean += value_at(x, 0, s, 0, 0) / 7;
  EXPECT_NEAR(y.out.get(0, 0, 0, 0), mean / 2, 1e-7);  // half of the weight went to the sink
  EXPECT_NEAR(y.lse.get(0, 0, 0, 0), std::log(14.0), 1e-7);
}

TEST(ClosedForm, AlibiTakesTheDistanceFromTheDiagonal) {
  Case c = equal_logits();
  c.key_length = 1;
  c.slopes = Slopes::per_head;
  Instance x = make(c);
  x.alibi_slopes.fill([](auto, auto, auto, std::int64_t n) { return std::ldexp(1.0, static_cast<int>(-n)); });
  const Forward y = forward(reference::entry, x);
  for (std::int64_t n = 0; n < 4; ++n)
    for (std::int64_t t = 0; t < 5; ++t) {
      EXPECT_DOUBLE_EQ(y.lse.get(0, 0, n, t), -std::ldexp(static_cast<double>(t), static_cast<int>(-n)));
    }
}

TEST(ClosedForm, BiasIsAddedAfterScaleAndSoftcap) {
  Case c = small();
  c.key_length = 1;
  c.scale = 2;
  c.softcap = 3;
  c.bias = DHYAN_F32;
  const Instance x = make(c);
  const Forward y = forward(reference::entry, x);
  double score = 0;
  for (std::int64_t h = 0; h < 3; ++h) score += 2 * x.query.get(0, 0, 0, h) * x.key.get(0, 0, 0, h);
  EXPECT_NEAR(y.lse.get(0, 0, 0, 0), 3 * std::tanh(score / 3) + x.bias.get(0, 0, 0, 0), 1e-14);
}

TEST(ClosedForm, HugeSoftcapChangesNothing) {
  Case c = small();
  const Forward plain = forward(reference::entry, make(c));
  c.softcap = 1e9;
  const Forward capped = forward(reference::entry, make(c));
  const auto want = plain.out.values();
  const auto got = capped.out.values();
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-12);
}

void expect_blank(const Forward& y, const Backward& g, double lse) {
  for (const double v : y.out.values()) EXPECT_EQ(v, 0);
  for (const double v : y.lse.values()) EXPECT_EQ(v, lse);
  for (const Array* a : {&g.grad_query, &g.grad_key, &g.grad_value}) {
    for (const double v : a->values()) EXPECT_EQ(v, 0);
  }
}

TEST(ClosedForm, RowsWithoutVisibleKeysAreZeroWithLseMinusInfinity) {
  Case c = small();
  c.mask = true;
  c.mask_keep = 0;
  const Instance x = make(c);
  const Forward y = forward(reference::entry, x);
  expect_blank(y, backward(reference::entry, x, y), -infinity);
}

TEST(ClosedForm, RowsWhoseBiasIsMinusInfinityAreFullyMasked) {
  Case c = small();
  c.bias = DHYAN_F32;
  c.bias_minus_infinity = 1;
  const Instance x = make(c);
  const Forward y = forward(reference::entry, x);
  expect_blank(y, backward(reference::entry, x, y), -infinity);
}

TEST(ClosedForm, FullyMaskedRowsWithASinkHaveTheSinkAsLse) {
  Case c = small();
  c.mask = true;
  c.mask_keep = 0;
  c.sink = c.grad_sink = c.grad_lse = true;
  Instance x = make(c);
  x.sink.fill([](auto...) { return 0.5; });
  const Forward y = forward(reference::entry, x);
  const Backward g = backward(reference::entry, x, y);
  expect_blank(y, g, 0.5);
  for (std::int64_t n = 0; n < c.query_heads; ++n) {  // the lse of such a row is the sink itself
    double sum = 0;
    for (std::int64_t b = 0; b < c.batch; ++b)
      for (std::int64_t t = 0; t < c.query_length; ++t) sum += x.grad_lse.get(b, 0, n, t);
    EXPECT_NEAR(g.grad_sink.get(0, 0, 0, n), sum, 1e-13);
  }
}

TEST(ClosedForm, NoKeysAtAllIsAFullyMaskedRow) {
  Case c = small();
  c.key_length = 0;
  const Instance x = make(c);
  const Forward y = forward(reference::entry, x);
  for (const double v : y.out.values()) EXPECT_EQ(v, 0);
  for (const double v : y.lse.values()) EXPECT_EQ(v, -infinity);
  for (const double v : backward(reference::entry, x, y).grad_query.values()) EXPECT_EQ(v, 0);
}

TEST(ClosedForm, LengthsHideWhatLiesPastThem) {
  Case c = equal_logits();
  c.query_lengths = {3, 5};
  c.key_lengths = {2, 0};
  c.sink = true;  // rows past a length are blank all the same
  Instance x = make(c);
  x.sink.fill([](auto...) { return std::log(2.0f); });
  const Forward y = forward(reference::entry, x);
  EXPECT_NEAR(y.out.get(0, 2, 0, 1), (value_at(x, 0, 0, 0, 1) + value_at(x, 0, 1, 0, 1)) / 4, 1e-7);
  EXPECT_EQ(y.out.get(0, 3, 0, 1), 0);
  EXPECT_EQ(y.lse.get(0, 0, 0, 3), -infinity);
  EXPECT_EQ(y.out.get(1, 4, 0, 1), 0);  // no keys
  EXPECT_NEAR(y.lse.get(1, 0, 0, 4), std::log(2.0), 1e-7);
}

TEST(ClosedForm, BottomRightUsesEffectiveLengths) {
  Case c = equal_logits();
  c.batch = 1;
  c.query_lengths = {2};
  c.key_lengths = {6};
  c.causal = DHYAN_CAUSAL_BOTTOM_RIGHT;
  const Forward y = forward(reference::entry, make(c));
  EXPECT_NEAR(y.lse.get(0, 0, 0, 0), std::log(5.0), 1e-14);
  EXPECT_NEAR(y.lse.get(0, 0, 0, 1), std::log(6.0), 1e-14);
}

TEST(ClosedForm, NegativeAndOverlongLengthsAreClamped) {
  Case c = equal_logits();
  c.key_lengths = {-3, 1000};
  const Forward y = forward(reference::entry, make(c));
  EXPECT_EQ(y.lse.get(0, 0, 0, 0), -infinity);
  EXPECT_NEAR(y.lse.get(1, 0, 0, 0), std::log(7.0), 1e-14);
}

TEST(ClosedForm, PackedSequencesEqualTheirOwnProblems) {
  for (const std::int64_t gap : {0, 3}) {
    Case c = small();
    c.batch = 4;
    c.packed = true;
    c.packing_gap = gap;
    c.query_lengths = {3, 0, 5, 1};
    c.key_lengths = {7, 4, 2, 0};
    c.causal = DHYAN_CAUSAL_BOTTOM_RIGHT;
    const Instance x = make(c);
    const Forward packed = forward(reference::entry, x);
    for (std::int64_t b = 0; b < 4; ++b) {
      const core::Sequence sequence = x.sequence(b);
      Case one = small();
      one.batch = 1;
      one.query_length = sequence.query_count;
      one.key_length = sequence.key_count;
      one.causal = c.causal;
      Instance y = make(one);
      const auto copy = [](Array& to, const Array& from, std::int64_t begin) {
        to.fill([&](auto, std::int64_t t, std::int64_t n, std::int64_t h) { return from.get(0, begin + t, n, h); });
      };
      copy(y.query, x.query, sequence.query_begin);
      copy(y.key, x.key, sequence.key_begin);
      copy(y.value, x.value, sequence.key_begin);
      const Forward alone = forward(reference::entry, y);
      for (std::int64_t t = 0; t < one.query_length; ++t)
        for (std::int64_t n = 0; n < 4; ++n) {
          EXPECT_EQ(packed.lse.get(0, 0, n, sequence.query_begin + t), alone.lse.get(0, 0, n, t));
          for (std::int64_t h = 0; h < 4; ++h) {
            EXPECT_EQ(packed.out.get(0, sequence.query_begin + t, n, h), alone.out.get(0, t, n, h));
          }
        }
    }
    for (std::int64_t b = 0; gap > 0 && b < 4; ++b) {  // the first token of each gap
      const core::Sequence sequence = x.sequence(b);
      EXPECT_EQ(packed.out.get(0, sequence.query_begin + sequence.query_count, 0, 0), 0);
      EXPECT_EQ(packed.lse.get(0, 0, 0, sequence.query_begin + sequence.query_count), -infinity);
    }
  }
}

TEST(ClosedForm, LargeLogitsDoNotOverflow) {
  for (const double sign : {-1.0, 1.0}) {
    Case c = small();
    c.key_length = 2;
    c.scale = 1;
    Instance x = make(c);
    x.query.fill([](auto...) { return 1e4; });
    x.key.fill([&](auto, auto, auto, std::int64_t h) { return h == 0 ? sign : 0.0; });
    const Forward y = forward(reference::entry, x);
    EXPECT_NEAR(y.lse.get(0, 0, 0, 0), sign * 1e4 + std::log(2.0), 1e-11);
    EXPECT_NEAR(y.out.get(0, 0, 0, 0), (value_at(x, 0, 0, 0, 0) + value_at(x, 0, 1, 0, 0)) / 2, 1e-14);
  }
}

TEST(ClosedForm, DropoutKeepsWeightsByPositionAndScalesThem) {
  Case c = equal_logits();
  c.dropout = 0.25;
  c.dropout_seed = 7;
  const Instance x = make(c);
  const Forward y = forward(reference::entry, x);
  double sum = 0;
  for (std::int64_t s = 0; s < 7; ++s) {
    if (core::keeps(x.problem, 1, 2, 3, s)) sum += value_at(x, 1, s, 2, 0) / 7 / 0.75;
  }
  EXPECT_NEAR(y.out.get(1, 3, 2, 0), sum, 1e-14);
  EXPECT_NEAR(y.lse.get(1, 0, 2, 3), std::log(7.0), 1e-14);  // lse knows nothing of dropout
}

TEST(ClosedForm, OutputsAreRoundedOnce) {
  for (const dhyan_dtype dtype : {DHYAN_F16, DHYAN_BF16, DHYAN_F32}) {
    Case c = equal_logits();
    c.dtype = dtype;
    c.key_length = 3;
    Instance x = make(c);
    x.value.fill([](auto, std::int64_t s, auto, auto) { return s == 0 ? 1.0 : 0.0; });
    const Forward y = forward(reference::entry, x);
    Array third(dtype, {1, 1, 1, 1}, Layout::contiguous);
    third.set(0, 0, 0, 0, 1.0 / 3.0);
    EXPECT_EQ(y.out.get(0, 0, 0, 0), third.get(0, 0, 0, 0));
  }
}

}  // namespace
}  // namespace dhyan::testing

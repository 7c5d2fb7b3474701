// SPDX-License-Identifier: Apache-2.0
// What the command measures with: sampled rows, limits, statistics, costs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "arguments.hpp"
#include "failure.hpp"
#include "measure/difference.hpp"
#include "measure/oracle.hpp"
#include "measure/sample.hpp"
#include "measure/statistics.hpp"
#include "problem/random_call.hpp"
#include "support/random.hpp"

namespace dhyan::app {
namespace {

using ::testing::ElementsAre;

Random fresh(const char* name) { return Random(::dhyan::testing::Random(name).bits()); }

Outputs forward_outputs(const Call& call) {
  Outputs outputs = make_outputs(call);
  attention(forward_problem(call, outputs, Implementation::reference));
  return outputs;
}

// The sample's values, and those the whole result has in the same places.
void expect_same_rows(const Oracle& sampled, const Oracle& whole, const std::string& what) {
  for (const Expected& sample : sampled.expected) {
    for (const Expected& all : whole.expected) {
      if (all.name != sample.name) continue;
      std::size_t at = 0;
      for (const std::int64_t start : sample.starts) {
        for (std::int64_t i = 0; i < sample.width; ++i, ++at) {
          const double want = all.values[static_cast<std::size_t>(start + i)], got = sample.values[at];
          if (std::isinf(want) || std::isinf(got)) {
            EXPECT_EQ(got, want) << what << " " << sample.name;
          } else {
            EXPECT_NEAR(got, want, 1e-9 * (1 + std::abs(want))) << what << " " << sample.name;
          }
        }
      }
      EXPECT_EQ(at, sample.values.size());
    }
  }
}

TEST(Sample, RowsAreTheWholeResultsRows) {
  Random random = fresh("RowsAreTheWholeResultsRows");
  int tried = 0, rows = 0;
  for (int i = 0; i < 150; ++i) {
    const RandomCall problem = random_call(random, i % 2 == 1);
    const Call& call = problem.call;
    if (call.dropout.probability > 0 && call.causal == Causal::bottom_right) continue;
    const Geometry geometry = geometry_of(call);
    const Oracle sampled = sampled_forward(call, geometry);
    expect_same_rows(sampled, forward_oracle(call, geometry), problem.description);
    rows += static_cast<int>(sampled.expected[0].starts.size());
    ++tried;
    if (!call.grad_out) continue;
    const Outputs given = forward_outputs(call);
    expect_same_rows(sampled_backward(call, geometry, given), backward_oracle(call, geometry, given), problem.description);
  }
  EXPECT_GT(tried, 100);
  EXPECT_GT(rows, 1000);
}

class Limit : public ::testing::TestWithParam<Element> {};

// A result of the reference rounded to its type passes; the smallest faults that matter do not.
TEST_P(Limit, PassesWhatIsRightAndCatchesWhatIsNot) {
  const Element element = GetParam();
  Random random = fresh("PassesWhatIsRightAndCatchesWhatIsNot");
  Call call;
  call.query = random_array(element, {1, 128, 2, 64}, random);
  call.key = random_array(element, {1, 128, 2, 64}, random);
  call.value = random_array(element, {1, 128, 2, 64}, random);
  const Geometry geometry = geometry_of(call);
  const LimitTable limits(call, geometry);
  const Oracle oracle = forward_oracle(call, geometry);
  const Outputs right = forward_outputs(call);
  EXPECT_TRUE(compare(right.out, oracle.expected[0], limits.of("out")).ok());
  EXPECT_TRUE(compare(right.lse, oracle.expected[1], limits.of("lse")).ok());

  const auto changed = [&](const auto& change) {
    Array wide = convert_array(right.out, Element::f64);
    change(wide.as<double>());
    return compare(convert_array(wide, element), oracle.expected[0], limits.of("out"));
  };
  EXPECT_FALSE(changed([](std::span<double> x) { x[77] = std::numeric_limits<double>::quiet_NaN(); }).ok());
  EXPECT_FALSE(changed([](std::span<double> x) { x[77] = std::numeric_limits<double>::infinity(); }).ok());
  EXPECT_FALSE(changed([](std::span<double> x) { x[77] += 0.5; }).ok());
  EXPECT_FALSE(changed([](std::span<double> x) {
                 for (double& v : x) v *= 1.05;
               }).ok());
  EXPECT_FALSE(changed([](std::span<double> x) { std::fill(x.begin(), x.begin() + 64, 0.0); }).ok());

  // One key of 128 left out.
  Call shorter = in_float64(call);
  shorter.key_lengths = Array(Element::i32, {1});
  shorter.key_lengths->as<std::int32_t>()[0] = 127;
  const Array missing = convert_array(forward_outputs(shorter).out, element);
  EXPECT_FALSE(compare(missing, oracle.expected[0], limits.of("out")).ok());
}

INSTANTIATE_TEST_SUITE_P(EveryType, Limit, ::testing::Values(Element::f64, Element::f32, Element::f16, Element::bf16),
                         [](const auto& info) { return std::string(info_of(info.param).name); });

TEST(Difference, PutsInfinitiesAndNaNFirst) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  Array got(Element::f64, {4});
  const auto set = [&](std::initializer_list<double> values) { std::ranges::copy(values, got.as<double>().begin()); };
  const Expected expected{"out", {1, -inf, nan, 2}, {}, 0, true};
  set({1, -inf, nan, 2});
  EXPECT_TRUE(compare(got, expected, {}).ok());
  set({1, inf, nan, 2});
  EXPECT_EQ(compare(got, expected, {1, 1, 1}).misplaced, 1);
  set({nan, -inf, 0, 2});
  EXPECT_EQ(compare(got, expected, {1, 1, 1}).misplaced, 2);
  set({1, -inf, nan, 2.5});
  const Difference d = compare(got, expected, {.relative = 0.1, .noise = 0, .peak = 0});
  EXPECT_DOUBLE_EQ(d.max_abs, 0.5);
  EXPECT_NEAR(d.relative, 0.5 / std::sqrt(5), 1e-15);
  EXPECT_FALSE(d.ok());
}

TEST(Statistics, QuantilesInterpolate) {
  EXPECT_DOUBLE_EQ(quantile({5}, 0.9), 5);
  EXPECT_DOUBLE_EQ(quantile({4, 1, 3, 2}, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile({0, 10}, 0.1), 1);
  const Statistics s = statistics_of({3, 1, 2});
  EXPECT_DOUBLE_EQ(s.median, 2);
  EXPECT_LT(s.p10, s.p90);
}

Call dense_call(std::int64_t b, std::int64_t t, std::int64_t s, std::int64_t n, std::int64_t k, std::int64_t h,
                std::int64_t hv) {
  Random random(1);
  Call call;
  call.query = random_array(Element::f32, {b, t, n, h}, random);
  call.key = random_array(Element::f32, {b, s, k, h}, random);
  call.value = random_array(Element::f32, {b, s, k, hv}, random);
  return call;
}

TEST(FlopCount, FollowsTheConvention) {
  Call call = dense_call(2, 3, 5, 4, 2, 8, 16);
  const double full = 2.0 * 2 * 4 * 3 * 5 * (8 + 16);
  EXPECT_DOUBLE_EQ(flop_count(call, geometry_of(call), false), full);
  EXPECT_DOUBLE_EQ(flop_count(call, geometry_of(call), true), 2.5 * full);
  call.causal = Causal::top_left;
  EXPECT_DOUBLE_EQ(flop_count(call, geometry_of(call), false), full / 2);
  call.window = {1, -1};  // visible keys of the queries: 1, 2, 2
  EXPECT_DOUBLE_EQ(flop_count(call, geometry_of(call), false), full * 5 / 15);
  call.causal = Causal::off;
  call.window = {};
  call.key_lengths = Array(Element::i32, {2});
  call.key_lengths->as<std::int32_t>()[0] = 1;
  call.key_lengths->as<std::int32_t>()[1] = 9;  // clamped to 5
  EXPECT_DOUBLE_EQ(flop_count(call, geometry_of(call), false), full * (3 * 1 + 3 * 5) / 30);
}

TEST(Axis, TakesListsAndRanges) {
  EXPECT_THAT(parse_axis("--seq", "64", 1, 1000), ElementsAre(64));
  EXPECT_THAT(parse_axis("--seq", "64,7", 1, 1000), ElementsAre(64, 7));
  EXPECT_THAT(parse_axis("--seq", "64:600:x2", 1, 1000), ElementsAre(64, 128, 256, 512));
  EXPECT_THAT(parse_axis("--seq", "64:256:+64", 1, 1000), ElementsAre(64, 128, 192, 256));
  EXPECT_THAT(parse_axis("--seq", "1,4:5:+1", 1, 1000), ElementsAre(1, 4, 5));
  EXPECT_THAT(parse_axis("--seq", "9000000000000000000:9223372036854775807:x3", 1, INT64_MAX),
              ElementsAre(9000000000000000000));
  for (const char* wrong : {"", "x", "1,", "0", "1001", "1:2", "1:2:3", "1:2:x", "1:2:x1", "1:2:+0", "2:1:x2", "1:2:*2", "1.5",
                            "1:1000:+1,1:2:+1", "99999999999999999999"}) {
    EXPECT_THROW(parse_axis("--seq", wrong, 1, 1000), Failure) << wrong;
  }
}

}  // namespace
}  // namespace dhyan::app

// SPDX-License-Identifier: Apache-2.0
// The generator against the published known answers of Random123, and the dropout rule built on it.
#include "core/philox.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace dhyan::core {
namespace {

using Words = std::array<std::uint32_t, 4>;

TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_EQ(philox(0, {0, 0, 0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(0xffffffffffffffff, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

Problem with_probability(double p) {
  Problem problem;
  problem.dropout = {p, static_cast<std::uint64_t>(p * 0x1p32), 0};
  return problem;
}

TEST(Dropout, ComparesTheWordOfThePosition) {
  const Problem p = with_probability(0.5);
  const Words words = philox(0, {3, 7, 2, 1});  // keys 12 to 15 of query 7, head 2, batch entry 1
  for (std::int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(keeps(p, 1, 2, 7, 12 + i), words[static_cast<std::size_t>(i)] >= 0x80000000u);
  }
}

TEST(Dropout, AShardSeesTheWholeProblemsPositions) {
  const Problem whole = with_probability(0.3);
  Problem shard = whole;
  shard.batch_origin = 2, shard.head_origin = 3, shard.query_origin = 5, shard.key_origin = 6;
  for (std::int64_t s = 0; s < 9; ++s) EXPECT_EQ(keeps(shard, 1, 1, 1, s), keeps(whole, 3, 4, 6, s + 6));
}

TEST(Dropout, PositionsPast32BitsWrapAsTheCounterDoes) {
  Problem p = with_probability(0.5);
  p.key_origin = (std::int64_t{1} << 34) - 2;  // the counter's first word overflows to 0 at key 2
  EXPECT_EQ(keeps(p, 0, 0, 0, 2), keeps(with_probability(0.5), 0, 0, 0, 0));
}

TEST(Dropout, KeepsTheShareAskedFor) {
  for (const double p : {0.1, 0.5, 0.9}) {
    const Problem problem = with_probability(p);
    constexpr int rows = 400, columns = 500;
    int kept = 0;
    for (std::int64_t t = 0; t < rows; ++t)
      for (std::int64_t s = 0; s < columns; ++s) kept += keeps(problem, 0, 0, t, s);
    const double sigma = std::sqrt(rows * columns * p * (1 - p));
    EXPECT_NEAR(kept, rows * columns * (1 - p), 5 * sigma);  // the generator is fixed: this holds or it does not
  }
}

TEST(Dropout, ProbabilityZeroKeepsAllAndOneDropsAll) {
  const Problem none = with_probability(0);
  const Problem all = with_probability(1);
  EXPECT_FALSE(none.has_dropout());
  for (std::int64_t s = 0; s < 1000; ++s) {
    EXPECT_TRUE(keeps(none, 0, 0, 0, s));
    EXPECT_FALSE(keeps(all, 0, 0, 0, s));  // the threshold, 2^32, does not fit a word
  }
}

}  // namespace
}  // namespace dhyan::core

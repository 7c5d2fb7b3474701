// SPDX-License-Identifier: Apache-2.0
// The same bits on every run and for every number of threads.
#include <gtest/gtest.h>

#include "reference/reference.hpp"
#include "support/check.hpp"
#include "support/compare.hpp"
#include "support/grid.hpp"

namespace dhyan::testing {
namespace {

std::vector<const core::ImplementationEntry*> everything() {
  auto all = implementations();
  all.push_back(&reference::entry);
  return all;
}

void expect_same(const Forward& a, const Forward& b) {
  EXPECT_TRUE(same_bits(a.out, b.out)) << "out";
  EXPECT_TRUE(same_bits(a.lse, b.lse)) << "lse";
}

void expect_same(const Backward& a, const Backward& b) {
  EXPECT_TRUE(same_bits(a.grad_query, b.grad_query)) << "grad_query";
  EXPECT_TRUE(same_bits(a.grad_key, b.grad_key)) << "grad_key";
  EXPECT_TRUE(same_bits(a.grad_value, b.grad_value)) << "grad_value";
  EXPECT_TRUE(same_bits(a.grad_bias, b.grad_bias)) << "grad_bias";
  EXPECT_TRUE(same_bits(a.grad_sink, b.grad_sink)) << "grad_sink";
}

class Determinism : public ::testing::TestWithParam<Case> {};

TEST_P(Determinism, AnyNumberOfThreadsGivesTheSameBits) {
  const Case& c = GetParam();
  SCOPED_TRACE(describe(c));
  const Instance x(c, Random(describe(c)));
  const Forward given = rounded(x, exact_forward(x));
  for (const core::ImplementationEntry* entry : everything()) {
    SCOPED_TRACE(entry->name);
    const Forward y = forward(*entry, x, 1);
    const Backward g = backward(*entry, x, given, 1);
    for (const int threads : {2, 3, 7}) {
      expect_same(forward(*entry, x, threads), y);
      expect_same(backward(*entry, x, given, threads), g);
    }
  }
}

std::vector<Case> cases() {
  Case base;
  base.query_length = 70;
  base.key_length = 140;
  base.batch = 2;
  auto all = one_option_cases(base);
  base.dtype = DHYAN_BF16;
  base.query_length = 150;
  base.causal = DHYAN_CAUSAL_BOTTOM_RIGHT;
  base.name = "bf16";
  all.push_back(base);
  base.query_length = 1;  // split over keys
  base.key_length = 3000;
  base.name = "decode";
  all.push_back(base);
  return all;
}

INSTANTIATE_TEST_SUITE_P(EveryOption, Determinism, ::testing::ValuesIn(cases()), case_name);

TEST(Determinism, AHundredRunsOnManyThreadsGiveTheSameBits) {
  Case c;
  c.batch = 1;
  c.query_heads = 4;
  c.key_heads = 1;
  c.query_length = c.key_length = 130;
  c.causal = DHYAN_CAUSAL_TOP_LEFT;
  c.bias = DHYAN_F32;
  c.bias_broadcast = {true, true};
  c.grad_bias = true;
  const Instance x(c, Random("AHundredRuns"));
  const Forward given = rounded(x, exact_forward(x));
  for (const core::ImplementationEntry* entry : implementations()) {
    SCOPED_TRACE(entry->name);
    const Forward y = forward(*entry, x, 4);
    const Backward g = backward(*entry, x, given, 4);
    for (int i = 0; i < (small_grid() ? 10 : 100) && !HasFailure(); ++i) {
      expect_same(forward(*entry, x, 4), y);
      expect_same(backward(*entry, x, given, 4), g);
    }
  }
}

}  // namespace
}  // namespace dhyan::testing

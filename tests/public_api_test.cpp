// SPDX-License-Identifier: Apache-2.0
// Whatever way a problem comes in, through dhyan.h or straight to an implementation, it is the same problem.
#include "support/public_api.hpp"

#include <gtest/gtest.h>

#include "reference/reference.hpp"
#include "support/check.hpp"
#include "support/compare.hpp"
#include "support/grid.hpp"

namespace dhyan::testing {
namespace {

class PublicApi : public ::testing::TestWithParam<Case> {};

TEST_P(PublicApi, GivesTheBitsOfTheImplementation) {
  const Case& c = GetParam();
  SCOPED_TRACE(describe(c) + ", seed " + std::to_string(run_seed()));
  const Instance x(c, Random(describe(c)));
  const Forward given = rounded(x, exact_forward(x));
  auto entries = implementations();
  entries.push_back(&reference::entry);
  for (const core::ImplementationEntry* entry : entries) {
    if (!refusal(*entry, x.problem).empty()) continue;
    SCOPED_TRACE(entry->name);
    const Forward y = forward(*entry, x);
    const Forward z = public_forward(entry->id, x);
    EXPECT_TRUE(same_bits(z.out, y.out));
    EXPECT_TRUE(same_bits(z.lse, y.lse));
    const Backward g = backward(*entry, x, given);
    const Backward h = public_backward(entry->id, x, given);
    EXPECT_TRUE(same_bits(h.grad_query, g.grad_query)) << "grad_query";
    EXPECT_TRUE(same_bits(h.grad_key, g.grad_key)) << "grad_key";
    EXPECT_TRUE(same_bits(h.grad_value, g.grad_value)) << "grad_value";
    EXPECT_TRUE(same_bits(h.grad_bias, g.grad_bias)) << "grad_bias";
    EXPECT_TRUE(same_bits(h.grad_sink, g.grad_sink)) << "grad_sink";
  }
}

std::vector<Case> cases() {
  constexpr Layout layouts[] = {Layout::contiguous, Layout::heads_first, Layout::gaps, Layout::shared_batch, Layout::unaligned};
  constexpr dhyan_dtype types[] = {DHYAN_F32, DHYAN_BF16, DHYAN_F16, DHYAN_F64};
  std::vector<Case> all;
  std::size_t i = 0;
  for (const dhyan_dtype dtype : types) {
    Case base;
    base.dtype = dtype;
    base.query_length = 21;
    base.key_length = 45;
    for (Case& c : one_option_cases(base)) {
      c.layout = layouts[i++ % 5];
      if (c.packed && c.layout == Layout::shared_batch) c.layout = Layout::gaps;
      all.push_back(c);
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(EveryOption, PublicApi, ::testing::ValuesIn(cases()), case_name);

// Sizes of zero are valid problems too, whichever they are.
std::vector<Case> zero_sizes() {
  std::vector<Case> all;
  const auto add = [&](const char* name, auto change) {
    Case c;
    c.bias = DHYAN_F32;
    c.grad_bias = c.sink = c.grad_sink = true;
    change(c);
    c.name = name;
    all.push_back(c);
  };
  add("no_batch", [](Case& c) { c.batch = 0; });
  add("no_queries", [](Case& c) { c.query_length = 0; });
  add("no_keys", [](Case& c) { c.key_length = 0; });
  add("no_heads", [](Case& c) { c.query_heads = c.key_heads = 0; });
  add("no_query_heads", [](Case& c) { c.query_heads = 0; });
  return all;
}

class PublicApiZeroSizes : public ::testing::TestWithParam<Case> {};

TEST_P(PublicApiZeroSizes, EveryOutputIsWritten) {
  const Case& c = GetParam();
  const Instance x(c, Random(describe(c)));
  for (const dhyan_implementation implementation : {DHYAN_AUTO, DHYAN_REFERENCE, DHYAN_NAIVE, DHYAN_FUSED}) {
    const Forward y = public_forward(implementation, x);
    for (const double v : y.out.values()) EXPECT_EQ(v, 0);
    const Backward g = public_backward(implementation, x, y);
    for (const Array* a : {&g.grad_query, &g.grad_key, &g.grad_value, &g.grad_bias}) {
      for (const double v : a->values()) EXPECT_EQ(v, 0);
    }
    if (c.query_length == 0 || c.batch == 0) {
      for (const double v : g.grad_sink.values()) EXPECT_EQ(v, 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Each, PublicApiZeroSizes, ::testing::ValuesIn(zero_sizes()), case_name);

}  // namespace
}  // namespace dhyan::testing

// SPDX-License-Identifier: Apache-2.0
// Every option, through the C interface, on every implementation: either it refuses and says why, or the result has the bits of
// the implementation given the option by hand. Nothing is dropped on the way in.
#include <gtest/gtest.h>

#include "api/choose.hpp"
#include "support/client.hpp"
#include "support/compare.hpp"
#include "support/grid.hpp"

namespace dhyan::testing {
namespace {

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const dhyan_dtype dtype : {DHYAN_F64, DHYAN_F32, DHYAN_F16, DHYAN_BF16}) {
    Case base;
    base.dtype = dtype;
    for (Case c : one_option_cases(base)) {
      c.name += dtype == DHYAN_F64 ? "_f64" : dtype == DHYAN_F32 ? "_f32" : dtype == DHYAN_F16 ? "_f16" : "_bf16";
      all.push_back(c);
    }
    for (const Layout layout : {Layout::heads_first, Layout::gaps, Layout::shared_batch, Layout::unaligned}) {
      Case c = base;
      c.layout = layout;
      c.name = std::string("layout_") + name_of(layout);
      all.push_back(c);
    }
  }
  return all;
}

class OptionThroughTheInterface : public ::testing::TestWithParam<Case> {};

TEST_P(OptionThroughTheInterface, WorksOrIsRefused) {
  const Instance x(GetParam(), Random(describe(GetParam())));
  const Forward given = forward(*api::find(DHYAN_REFERENCE, DHYAN_CPU), x);
  int ran = 0;
  for (const core::ImplementationEntry* entry : api::implementations()) {
    if (entry->device_type != DHYAN_CPU || !entry->unavailable(test_device()).empty()) continue;
    SCOPED_TRACE(entry->name);
    Forward result{x.out.like(), x.description.lse ? x.lse.like() : Array()};
    Client client(x, result);
    client.options.implementation = entry->id;
    const Answer answer = client.run_plan();
    if (const std::string reason = refusal(*entry, x.problem); !reason.empty()) {
      EXPECT_EQ(answer.status, DHYAN_UNSUPPORTED);
      EXPECT_NE(answer.message.find(reason), std::string::npos) << answer.message;
      continue;
    }
    ++ran;
    ASSERT_EQ(answer.message, "");
    const Forward want = forward(*entry, x);
    EXPECT_TRUE(same_bits(result.out, want.out)) << "out";
    EXPECT_TRUE(same_bits(result.lse, want.lse)) << "lse";
    result.out.poison();
    ASSERT_EQ(client.run_once().message, "");
    EXPECT_TRUE(same_bits(result.out, want.out)) << "one-shot out";

    Forward known = given;
    Backward gradients = gradient_arrays(x);
    Client back(x, known, gradients);
    back.options.implementation = entry->id;
    ASSERT_EQ(back.run_plan(DHYAN_BACKWARD).message, "");
    const Backward wanted = backward(*entry, x, given);
    EXPECT_TRUE(same_bits(gradients.grad_query, wanted.grad_query)) << "grad_query";
    EXPECT_TRUE(same_bits(gradients.grad_key, wanted.grad_key)) << "grad_key";
    EXPECT_TRUE(same_bits(gradients.grad_value, wanted.grad_value)) << "grad_value";
    EXPECT_TRUE(same_bits(gradients.grad_bias, wanted.grad_bias)) << "grad_bias";
    EXPECT_TRUE(same_bits(gradients.grad_sink, wanted.grad_sink)) << "grad_sink";
  }
  EXPECT_GE(ran, 1);
}

INSTANTIATE_TEST_SUITE_P(Grid, OptionThroughTheInterface, ::testing::ValuesIn(cases()), case_name);

// Options that a whole and its normal form must agree on.
TEST(Options, AWindowOverEveryKeyHidesNothing) {
  Case c;
  c.causal = DHYAN_CAUSAL_TOP_LEFT;
  const Instance x(c, Random("whole window"));
  Forward want{x.out.like(), x.lse.like()};
  Client plain(x, want);
  ASSERT_EQ(plain.run_once().message, "");
  for (const std::int64_t window : {std::int64_t{56}, std::int64_t{1} << 40, INT64_MAX}) {
    for (const dhyan_implementation implementation : {DHYAN_REFERENCE, DHYAN_AUTO}) {
      Forward got{x.out.like(), x.lse.like()};
      Client client(x, got);
      client.options.implementation = implementation;
      client.options.window_left = window;
      client.options.window_right = window;
      ASSERT_EQ(client.run_once().message, "");
      if (implementation == DHYAN_AUTO) {
        EXPECT_TRUE(same_bits(got.out, want.out)) << window;
        EXPECT_TRUE(same_bits(got.lse, want.lse)) << window;
      }
    }
  }
}

TEST(Options, TheDefaultScaleIsOneOverTheRootOfHeadDim) {
  Case c;
  c.head_dim = c.value_head_dim = 16;
  const Instance x(c, Random("scale"));
  Forward implicit{x.out.like(), x.lse.like()};
  Forward explicit_one{x.out.like(), x.lse.like()};
  Client first(x, implicit);
  Client second(x, explicit_one);
  second.options.scale = 0.25;
  ASSERT_EQ(first.run_once().message, "");
  ASSERT_EQ(second.run_once().message, "");
  EXPECT_TRUE(same_bits(implicit.out, explicit_one.out));
  second.options.scale = 0;
  ASSERT_EQ(second.run_once().message, "");
  EXPECT_FALSE(same_bits(implicit.out, explicit_one.out));
}

TEST(Options, ABiasViewThatRepeatsItsBatchHasAGradientForEach) {
  Case c;
  c.bias = DHYAN_F32;
  c.grad_bias = true;
  const Instance x(c, Random("expanded bias"));
  for (const core::ImplementationEntry* entry : api::implementations()) {
    if (!entry->unavailable(test_device()).empty()) continue;
    SCOPED_TRACE(entry->name);
    // The same numbers twice: as a copy for each batch entry, and as a view with stride 0.
    Instance copied = x;
    copied.bias = x.bias.like();
    copied.bias.fill([&](auto, auto n, auto t, auto s) { return x.bias.get(0, n, t, s); });
    const Forward given = forward(*entry, copied);
    const Backward want = backward(*entry, copied, given);
    Forward known = given;
    Backward got = gradient_arrays(x);
    Client client(x, known, got);
    client.options.implementation = entry->id;
    client[api::kBias].strides[0] = 0;
    ASSERT_EQ(client.run_once(DHYAN_BACKWARD).message, "");
    EXPECT_TRUE(same_bits(got.grad_bias, want.grad_bias));
    EXPECT_TRUE(same_bits(got.grad_query, want.grad_query));
  }
}

}  // namespace
}  // namespace dhyan::testing

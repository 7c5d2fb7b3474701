// SPDX-License-Identifier: Apache-2.0
// Partial results over shards of the keys, joined, are the whole; so are sums of the shards' gradients.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/convert.hpp"
#include "support/bounds.hpp"
#include "support/client.hpp"
#include "support/compare.hpp"
#include "support/grid.hpp"

namespace dhyan::testing {
namespace {

using namespace api;

dhyan_tensor view(const Array& array, const std::vector<int>& dims) {
  dhyan_tensor t;
  dhyan_tensor_init(&t);
  t.data = const_cast<void*>(array.data());
  t.dtype = array.dtype();
  t.rank = static_cast<std::int32_t>(dims.size());
  for (std::size_t i = 0; i < dims.size(); ++i) {
    t.shape[i] = array.shape()[static_cast<std::size_t>(dims[i])];
    t.strides[i] = array.strides()[static_cast<std::size_t>(dims[i])];
  }
  return t;
}

Answer merge(const Forward& a, const Forward& b, const Forward& to) {
  const dhyan_tensor tensors[] = {view(a.out, {0, 1, 2, 3}), view(a.lse, {0, 2, 3}),     view(b.out, {0, 1, 2, 3}),
                                  view(b.lse, {0, 2, 3}),    view(to.out, {0, 1, 2, 3}), view(to.lse, {0, 2, 3})};
  Answer answer;
  char message[256];
  answer.status = dhyan_merge(&tensors[0], &tensors[1], &tensors[2], &tensors[3], &tensors[4], &tensors[5], nullptr, message,
                              sizeof message);
  answer.message = message;
  return answer;
}

double worst(const Array& got, const Array& want) {
  const Difference d = difference(got.values(), want.values());
  EXPECT_EQ(d.anomaly, "");
  return d.max_absolute;
}

// Keys [begin, end) of a client's problem.
void take_keys(Client& client, std::int64_t begin, std::int64_t end, bool backward) {
  client.options.key_origin += begin;
  const auto cut = [&](Slot slot, int dim) {
    dhyan_tensor& t = client[slot];
    if (t.dtype == DHYAN_NONE) return;
    const auto element = static_cast<std::int64_t>(core::size_of(t.dtype));
    if (t.shape[dim] == 1 && end - begin != 1) return;
    t.data = static_cast<std::byte*>(t.data) + begin * t.strides[dim] * element;
    t.shape[dim] = end - begin;
    t.alignment = static_cast<std::int32_t>(element);
  };
  cut(kKey, 1);
  cut(kValue, 1);
  cut(kBias, 3);
  cut(kMask, 3);
  if (!backward) return;
  cut(kGradKey, 1);
  cut(kGradValue, 1);
}

std::vector<Case> sharded_cases(dhyan_dtype dtype) {
  Case base;
  base.dtype = dtype;
  base.query_length = 23;
  base.key_length = 41;
  std::vector<Case> all;
  for (Case& c : one_option_cases(base)) {
    const bool lengths = !c.query_lengths.empty() || !c.key_lengths.empty();
    if (lengths || c.packed || c.sink || c.causal == DHYAN_CAUSAL_BOTTOM_RIGHT) continue;
    c.grad_bias = false;
    all.push_back(c);
  }
  for (Case c : {base, base}) {
    c.causal = DHYAN_CAUSAL_TOP_LEFT;
    c.query_origin = all.size() % 2 ? 18 : 2;
    c.window_left = 9;
    c.slopes = Slopes::per_batch_and_head;
    c.dropout = 0.25;
    c.name = "all_that_counts_positions";
    all.push_back(c);
  }
  return all;
}

class Shards : public ::testing::TestWithParam<Case> {};

TEST_P(Shards, OfKeysJoinToTheWhole) {
  const Case& c = GetParam();
  const Instance x(c, Random(describe(c)));
  const double tolerance = c.dtype == DHYAN_F64 ? 1e-12 : 2e-5;
  for (const dhyan_implementation implementation : {DHYAN_REFERENCE, DHYAN_AUTO}) {
    for (const std::int64_t split : {std::int64_t{0}, std::int64_t{1}, std::int64_t{16}, std::int64_t{40}, std::int64_t{41}}) {
      SCOPED_TRACE("split at " + std::to_string(split));
      const auto run = [&](std::int64_t begin, std::int64_t end) {
        Forward result{x.out.like(), x.lse.like()};
        Client client(x, result);
        client.options.implementation = implementation;
        take_keys(client, begin, end, false);
        EXPECT_EQ(client.run_once().message, "");
        return result;
      };
      const Forward whole = run(0, c.key_length);
      const Forward left = run(0, split);
      const Forward right = run(split, c.key_length);
      Forward joined{x.out.like(), x.lse.like()};
      ASSERT_EQ(merge(left, right, joined).message, "");
      EXPECT_LE(worst(joined.out, whole.out), tolerance);
      EXPECT_LE(worst(joined.lse, whole.lse), tolerance);
      EXPECT_TRUE(joined.out.poison_outside_elements());

      // In place over either part.
      const Forward left_again{left.out, left.lse};
      Forward copy{x.out.like(), x.lse.like()};
      copy.out.assign(right.out.values());
      copy.lse.assign(right.lse.values());
      ASSERT_EQ(merge(left_again, copy, copy).message, "");
      EXPECT_TRUE(same_bits(copy.out, joined.out));
      EXPECT_TRUE(same_bits(copy.lse, joined.lse));
      ASSERT_EQ(merge(left, right, left).message, "");
      EXPECT_TRUE(same_bits(left.out, joined.out));
    }
  }
}

TEST_P(Shards, GiveTheGradientsOfTheWhole) {
  Case c = GetParam();
  const Instance x(c, Random(describe(c)));
  const double tolerance = c.dtype == DHYAN_F64 ? 1e-11 : 1e-4;
  for (const dhyan_implementation implementation : {DHYAN_REFERENCE, DHYAN_AUTO}) {
    Forward given{x.out.like(), x.lse.like()};
    Client forward_client(x, given);
    ASSERT_EQ(forward_client.run_once().message, "");
    const auto run = [&](std::int64_t begin, std::int64_t end, Backward& gradients) {
      Client client(x, given, gradients);
      client.options.implementation = implementation;
      take_keys(client, begin, end, true);
      ASSERT_EQ(client.run_once(DHYAN_BACKWARD).message, "");
    };
    Backward whole = gradient_arrays(x);
    run(0, c.key_length, whole);
    Backward left = gradient_arrays(x);
    Backward right = gradient_arrays(x);
    constexpr std::int64_t kSplit = 17;
    run(0, kSplit, left);
    run(kSplit, c.key_length, right);
    if (c.grad_query) {
      Array sum = left.grad_query.like();
      sum.fill(
          [&](auto b, auto t, auto n, auto h) { return left.grad_query.get(b, t, n, h) + right.grad_query.get(b, t, n, h); });
      EXPECT_LE(worst(sum, whole.grad_query), tolerance);
    }
    // Each shard writes its own keys: one after the other they fill what the whole writes at once.
    Backward both = gradient_arrays(x);
    run(0, kSplit, both);
    run(kSplit, c.key_length, both);
    if (c.grad_key) {
      EXPECT_LE(worst(both.grad_key, whole.grad_key), tolerance);
    }
    if (c.grad_value) {
      EXPECT_LE(worst(both.grad_value, whole.grad_value), tolerance);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(F64, Shards, ::testing::ValuesIn(sharded_cases(DHYAN_F64)), case_name);
INSTANTIATE_TEST_SUITE_P(F32, Shards, ::testing::ValuesIn(sharded_cases(DHYAN_F32)), case_name);

Forward part(dhyan_dtype dtype, dhyan_dtype lse, const Shape& shape, Layout layout, const char* name) {
  Forward f{Array(dtype, shape, layout), Array(lse, {shape[0], 1, shape[2], shape[1]}, layout)};
  Random random(name);
  f.out.fill([&](auto...) { return random.normal(); });
  f.lse.fill([&](auto...) { return 3 * random.normal(); });
  return f;
}

TEST(Merge, IsTheSoftmaxWeightedSumInEveryTypeAndLayout) {
  const Shape shape{2, 5, 3, 7};
  for (const dhyan_dtype dtype : {DHYAN_F64, DHYAN_F32, DHYAN_F16, DHYAN_BF16}) {
    for (const Layout layout : {Layout::contiguous, Layout::heads_first, Layout::gaps, Layout::unaligned}) {
      const dhyan_dtype lse = dtype == DHYAN_F64 ? DHYAN_F64 : DHYAN_F32;
      const Forward a = part(dtype, lse, shape, layout, "a");
      const Forward b = part(dtype, lse, shape, Layout::contiguous, "b");
      Forward to{a.out.like(), a.lse.like()};
      ASSERT_EQ(merge(a, b, to).message, "");
      const double u = roundoff(dtype);
      for (std::int64_t i = 0; i < 2; ++i)
        for (std::int64_t t = 0; t < 5; ++t)
          for (std::int64_t n = 0; n < 3; ++n) {
            const double x = std::exp(a.lse.get(i, 0, n, t));
            const double y = std::exp(b.lse.get(i, 0, n, t));
            EXPECT_NEAR(to.lse.get(i, 0, n, t), std::log(x + y), 4 * roundoff(lse) * 20);
            for (std::int64_t h = 0; h < 7; ++h) {
              const double want = (x * a.out.get(i, t, n, h) + y * b.out.get(i, t, n, h)) / (x + y);
              EXPECT_NEAR(to.out.get(i, t, n, h), want, u * std::abs(want) + 64 * accumulation_roundoff(dtype));
            }
          }
      EXPECT_TRUE(to.out.poison_outside_elements());
      EXPECT_TRUE(to.lse.poison_outside_elements());
    }
  }
}

TEST(Merge, APartWithoutWeightCountsNothingWhateverItHolds) {
  constexpr double kNothing = -std::numeric_limits<double>::infinity();
  const Shape shape{1, 2, 2, 3};
  const Forward a = part(DHYAN_F32, DHYAN_F32, shape, Layout::contiguous, "a");
  Forward nothing = part(DHYAN_F32, DHYAN_F32, shape, Layout::contiguous, "b");
  nothing.out.fill([](auto...) { return std::numeric_limits<double>::quiet_NaN(); });
  nothing.lse.fill([&](auto...) { return kNothing; });
  Forward to{a.out.like(), a.lse.like()};
  ASSERT_EQ(merge(a, nothing, to).message, "");
  EXPECT_TRUE(same_bits(to.out, a.out));
  EXPECT_TRUE(same_bits(to.lse, a.lse));
  ASSERT_EQ(merge(nothing, a, to).message, "");
  EXPECT_TRUE(same_bits(to.out, a.out));
  ASSERT_EQ(merge(nothing, nothing, to).message, "");
  for (const double x : to.out.values()) EXPECT_EQ(x, 0);
  for (const double x : to.lse.values()) EXPECT_EQ(x, kNothing);
}

TEST(Merge, LargeLseDoNotOverflow) {
  const Shape shape{1, 1, 1, 1};
  Forward a = part(DHYAN_F32, DHYAN_F32, shape, Layout::contiguous, "a");
  Forward b = part(DHYAN_F32, DHYAN_F32, shape, Layout::contiguous, "b");
  a.lse.set(0, 0, 0, 0, 1e4), b.lse.set(0, 0, 0, 0, 1e4);
  Forward to{a.out.like(), a.lse.like()};
  ASSERT_EQ(merge(a, b, to).message, "");
  EXPECT_NEAR(to.lse.get(0, 0, 0, 0), 1e4 + std::log(2), 1e-3);
  EXPECT_NEAR(to.out.get(0, 0, 0, 0), (a.out.get(0, 0, 0, 0) + b.out.get(0, 0, 0, 0)) / 2, 1e-6);
}

TEST(Merge, RefusesWhatItsPartsCannotBe) {
  const Shape shape{2, 5, 3, 7};
  const auto make = [&](const Shape& s, const char* name) { return part(DHYAN_F32, DHYAN_F32, s, Layout::contiguous, name); };
  const Forward a = make(shape, "a");
  const Forward b = make(shape, "b");
  Forward to{a.out.like(), a.lse.like()};
  EXPECT_EQ(merge(a, make({2, 5, 3, 8}, "c"), to).message, "out_b: shape [2, 5, 3, 8], it must be out_a's, [2, 5, 3, 7]");
  Forward mixed{b.out, make({2, 3, 5, 1}, "d").lse};
  EXPECT_EQ(merge(a, mixed, to).message, "lse_b: shape [2, 5, 3], it must be [2, 3, 5] for an out of shape [2, 5, 3, 7]");
  Forward crossed{b.out, to.lse};
  EXPECT_EQ(merge(a, b, crossed).message, "");
  dhyan_tensor o = view(a.out, {0, 1, 2, 3});
  o.data = static_cast<float*>(o.data) + 1;
  o.shape[0] = 1;
  char message[256];
  const dhyan_tensor part_out = [&] {
    dhyan_tensor t = view(a.out, {0, 1, 2, 3});
    t.shape[0] = 1;
    return t;
  }();
  dhyan_tensor lse_a = view(a.lse, {0, 2, 3});
  dhyan_tensor lse_to = view(to.lse, {0, 2, 3});
  lse_a.shape[0] = lse_to.shape[0] = 1;
  EXPECT_EQ(dhyan_merge(&part_out, &lse_a, &part_out, &lse_a, &o, &lse_to, nullptr, message, sizeof message),
            DHYAN_INVALID_ARGUMENT);
  EXPECT_STREQ(message, "out: shares memory with out_a, it may only be the very tensor that is its part");
  EXPECT_EQ(dhyan_merge(nullptr, &lse_a, &part_out, &lse_a, &o, &lse_to, nullptr, message, sizeof message),
            DHYAN_INVALID_ARGUMENT);
  EXPECT_STREQ(message, "out_a: NULL, a struct is required");
}

TEST(Merge, PackedTensorsHaveNoBatch) {
  const Forward a = part(DHYAN_F32, DHYAN_F32, {1, 6, 2, 4}, Layout::contiguous, "a");
  const Forward b = part(DHYAN_F32, DHYAN_F32, {1, 6, 2, 4}, Layout::contiguous, "b");
  Forward dense{a.out.like(), a.lse.like()};
  ASSERT_EQ(merge(a, b, dense).message, "");
  Forward packed{a.out.like(), a.lse.like()};
  const dhyan_tensor t[] = {view(a.out, {1, 2, 3}), view(a.lse, {2, 3}),         view(b.out, {1, 2, 3}),
                            view(b.lse, {2, 3}),    view(packed.out, {1, 2, 3}), view(packed.lse, {2, 3})};
  char message[256];
  ASSERT_EQ(dhyan_merge(&t[0], &t[1], &t[2], &t[3], &t[4], &t[5], nullptr, message, sizeof message), DHYAN_OK) << message;
  EXPECT_TRUE(same_bits(packed.out, dense.out));
  EXPECT_TRUE(same_bits(packed.lse, dense.lse));
}

}  // namespace
}  // namespace dhyan::testing

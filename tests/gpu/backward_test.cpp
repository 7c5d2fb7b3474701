// SPDX-License-Identifier: Apache-2.0
// Fused backward over several tiles of every class of head dimension, and its two ways to the gradients of queries.
#include <gtest/gtest.h>

#include <cstring>

#include "cuda/portable/fused.hpp"
#include "gpu/device.hpp"
#include "support/grid.hpp"

namespace dhyan::testing::gpu {
namespace {

// Several tiles of queries and keys, the last ones broken, in every class of head dimension.
std::vector<Case> several_tiles() {
  std::vector<Case> cases;
  for (const dhyan_dtype dtype : {DHYAN_BF16, DHYAN_F16}) {
    for (const std::int64_t h : {64, 128, 256}) {
      Case base;
      base.dtype = dtype;
      base.query_heads = 2;
      base.key_heads = 1;
      base.head_dim = base.value_head_dim = h;
      for (Case c : one_option_cases(base)) {
        resize(c, 140, 200);
        if (!c.packed && !c.query_lengths.empty()) c.query_lengths = {70, 140};
        if (!c.packed && !c.key_lengths.empty()) c.key_lengths = {200, 129};
        cases.push_back(c);
      }
    }
  }
  return cases;
}

class FusedBackward : public ::testing::TestWithParam<Case> {};

TEST_P(FusedBackward, EqualsTheReference) { check_backward(GetParam()); }

TEST_P(FusedBackward, EqualsTheReferenceWhenDeterministicAndHasTheSameBitsInEveryRun) {
  Instance x(GetParam(), Random(describe(GetParam())));
  x.problem.deterministic = true;
  check_backward(x);
  const Forward given = rounded(x, exact_forward(x));
  const Backward first = run_backward(cuda::fused_entry, x, given);
  for (int i = 0; i < 3; ++i) {
    const Backward again = run_backward(cuda::fused_entry, x, given);
    const auto same = [](const Array& a, const Array& b) {
      return !a.present() || std::memcmp(a.storage(), b.storage(), static_cast<std::size_t>(a.storage_bytes())) == 0;
    };
    EXPECT_TRUE(same(first.grad_query, again.grad_query));
    EXPECT_TRUE(same(first.grad_key, again.grad_key));
    EXPECT_TRUE(same(first.grad_value, again.grad_value));
    EXPECT_TRUE(same(first.grad_bias, again.grad_bias));
    EXPECT_TRUE(same(first.grad_sink, again.grad_sink));
  }
}

INSTANTIATE_TEST_SUITE_P(SeveralTiles, FusedBackward, ::testing::ValuesIn(several_tiles()), case_name);

}  // namespace
}  // namespace dhyan::testing::gpu

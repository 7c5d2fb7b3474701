// SPDX-License-Identifier: Apache-2.0
// Fused backward over several tiles of every class of head dimension, and its two ways to the gradients of queries.
#include <gtest/gtest.h>

#include <cstring>

#include "cuda/portable/fused.hpp"
#include "gpu/device.hpp"
#include "support/bounds.hpp"
#include "support/compare.hpp"
#include "support/grid.hpp"

namespace dhyan::testing::gpu {
namespace {

// Several tiles of queries and keys, the last ones broken, in every class of head dimension; fewer in types whose kernels are
// the same or go by one tile.
std::vector<Case> several_tiles() {
  std::vector<Case> cases;
  for (const dhyan_dtype dtype : {DHYAN_BF16, DHYAN_F16, DHYAN_F32}) {
    for (const std::int64_t h : {64, 128, 256}) {
      if (dtype == DHYAN_F16 && h != 64) continue;
      if (dtype == DHYAN_F32 && h != 128) continue;
      Case base;
      base.dtype = dtype;
      base.query_heads = 2;
      base.key_heads = 1;
      base.head_dim = base.value_head_dim = h;
      for (Case c : one_option_cases(base)) {
        resize(c, 100, 160);
        if (!c.packed && !c.query_lengths.empty()) c.query_lengths = {50, 100};
        if (!c.packed && !c.key_lengths.empty()) c.key_lengths = {160, 65};
        cases.push_back(c);
      }
    }
  }
  return cases;
}

class FusedBackward : public ::testing::TestWithParam<Case> {
 protected:
  // The gradient of a bias in f32 and nothing else.
  static bool refused(const Instance& x) {
    core::Problem p = backward_problem(x, empty_gradients(x));
    p.device_type = DHYAN_CUDA;
    const bool expected = p.dtype == DHYAN_F32 && p.grad_bias.present();
    EXPECT_EQ(cuda::fused_entry.refuse(p, device()).has_value(), expected);
    return expected;
  }
};

TEST_P(FusedBackward, EqualsTheReference) { check_backward(GetParam()); }

TEST_P(FusedBackward, EqualsTheReferenceWhenDeterministicAndHasTheSameBitsInEveryRun) {
  Instance x(GetParam(), Random(describe(GetParam())));
  if (refused(x)) GTEST_SKIP() << "fused refuses the gradient of a bias in f32, as it should";
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

// What devices with less shared memory run.
TEST_P(FusedBackward, EqualsTheReferenceOnSmallTiles) {
  const Instance x(GetParam(), Random(describe(GetParam())));
  if (refused(x)) GTEST_SKIP() << "fused refuses the gradient of a bias in f32, as it should";
  const Forward given = rounded(x, exact_forward(x));
  const Backward want = exact_backward(x, given);
  const BackwardBounds bounds = backward_bounds(x, given, want);
  const BackwardOnDevice on_device(x, given);
  dhyan_device_description ada = device();
  ada.compute_major = 8;
  ada.compute_minor = 9;
  const auto executable = cuda::fused_entry.plan(on_device.problem(), ada);
  const Memory scratch(executable->scratch_bytes());
  executable->run(on_device.buffers(), scratch.data(), nullptr);
  const Backward got = on_device.result();
  EXPECT_TRUE(!want.grad_query.present() || within(got.grad_query, want.grad_query, bounds.grad_query));
  EXPECT_TRUE(!want.grad_key.present() || within(got.grad_key, want.grad_key, bounds.grad_key));
  EXPECT_TRUE(!want.grad_value.present() || within(got.grad_value, want.grad_value, bounds.grad_value));
}

INSTANTIATE_TEST_SUITE_P(SeveralTiles, FusedBackward, ::testing::ValuesIn(several_tiles()), case_name);

}  // namespace
}  // namespace dhyan::testing::gpu

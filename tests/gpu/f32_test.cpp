// SPDX-License-Identifier: Apache-2.0
// f32 by tensor cores, which multiply less than f32: as precise as cuBLAS, and right for what its parts cannot hold.
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <limits>

#include "cuda/naive/naive.hpp"
#include "cuda/portable/fused.hpp"
#include "gpu/device.hpp"
#include "support/compare.hpp"

namespace dhyan::testing::gpu {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Case of_f32(std::int64_t queries, std::int64_t keys, std::int64_t head_dim) {
  Case c;
  c.dtype = DHYAN_F32;
  c.batch = 1;
  c.query_heads = c.key_heads = 2;
  c.query_length = queries;
  c.key_length = keys;
  c.head_dim = c.value_head_dim = head_dim;
  return c;
}

void expect_precise(const Case& c) {
  SCOPED_TRACE(describe(c));
  const Instance x(c, Random(describe(c)));
  const std::vector<double> exact = exact_forward(x).out.values();
  const Difference fused = difference(run_forward(cuda::fused_entry, x).out.values(), exact);
  const Difference naive = difference(run_forward(cuda::naive_entry, x).out.values(), exact);
  EXPECT_EQ(fused.anomaly, "");
  EXPECT_LE(fused.max_absolute, 2 * naive.max_absolute);
  EXPECT_LE(fused.norm, 2 * naive.norm);
}

TEST(GpuFloat, IsAtMostTwiceAsFarFromFloat64AsCublasIs) {
  for (const std::int64_t head_dim : {64, 128, 256}) {
    expect_precise(of_f32(300, 700, head_dim));
    expect_precise(of_f32(24, 16384, head_dim));
  }
  Case causal = of_f32(400, 400, 64);
  causal.causal = DHYAN_CAUSAL_TOP_LEFT;
  expect_precise(causal);
}

TEST(GpuFloat, TensorFloat32IsUsedWhenAskedForOnly) {
  const Case c = of_f32(128, 256, 64);
  Instance x(c, Random("tf32"));
  const std::vector<double> exact = exact_forward(x).out.values();
  const double error = difference(run_forward(cuda::fused_entry, x).out.values(), exact).relative;
  x.problem.precision = DHYAN_PRECISION_TF32;
  const double error_of_tf32 = difference(run_forward(cuda::fused_entry, x).out.values(), exact).relative;
  EXPECT_LT(error, 2e-6);
  EXPECT_GT(error_of_tf32, 2e-5);
  EXPECT_LT(error_of_tf32, 2e-3);
}

// An infinite number has no low part; one next to the largest float has no rounded high part.
TEST(GpuFloat, NumbersThatAreNotFiniteOrAlmostGiveWhatNaiveGives) {
  for (const std::int64_t head_dim : {64, 128, 256}) {
    Instance x(of_f32(70, 150, head_dim), Random("not finite"));
    x.value.set(0, 3, 0, 5, kInfinity);
    x.value.set(0, 100, 0, 6, -kInfinity);
    x.value.set(0, 7, 0, 7, FLT_MAX);
    x.value.set(0, 8, 0, 8, kNaN);
    x.key.set(0, 20, 1, 2, kInfinity);  // a weight of NaN or of 0, as the query's sign is
    x.query.set(0, 11, 0, 1, kInfinity);
    x.query.set(0, 12, 0, 1, kNaN);
    const Forward naive = run_forward(cuda::naive_entry, x);
    const Forward fused = run_forward(cuda::fused_entry, x);
    const Difference out = difference(fused.out.values(), naive.out.values());
    EXPECT_EQ(out.anomaly, "");
    EXPECT_LT(out.relative, 1e-5);
    const Difference lse = difference(fused.lse.values(), naive.lse.values());
    EXPECT_EQ(lse.anomaly, "");
    EXPECT_LT(lse.max_absolute, 1e-5);
  }
}

TEST(GpuFloat, EveryRunGivesTheSameBits) {
  Case c = of_f32(200, 1500, 128);
  c.dropout = 0.2;
  const Instance x(c, Random("the same bits"));
  const Forward first = run_forward(cuda::fused_entry, x);
  for (int i = 0; i < 20; ++i) {
    const Forward again = run_forward(cuda::fused_entry, x);
    ASSERT_TRUE(same_bits(again.out, first.out)) << "run " << i;
    ASSERT_TRUE(same_bits(again.lse, first.lse)) << "run " << i;
  }
}

}  // namespace
}  // namespace dhyan::testing::gpu

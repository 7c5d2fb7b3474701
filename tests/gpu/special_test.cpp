// SPDX-License-Identifier: Apache-2.0
// What a grid of random numbers does not show: values that are no numbers, precision, repeated bits.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cuda/naive/naive.hpp"
#include "gpu/device.hpp"
#include "support/compare.hpp"

namespace dhyan::testing::gpu {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Case of_type(dhyan_dtype dtype) {
  Case c;
  c.dtype = dtype;
  return c;
}

constexpr dhyan_dtype kTypes[] = {DHYAN_F64, DHYAN_F32, DHYAN_F16, DHYAN_BF16};

// A weight of 0 would turn an infinite value into a NaN there.
TEST(GpuSpecial, RowsPastAQueryLengthAreZeroWhateverTheValuesAre) {
  for (const dhyan_dtype dtype : kTypes) {
    Case c = of_type(dtype);
    c.query_lengths = {7, 19};
    Instance x(c, Random("infinite values"));
    x.value.set(0, 3, 0, 5, kInfinity);
    const Forward got = run_forward(cuda::naive_entry, x);
    for (std::int64_t t = 7; t < c.query_length; ++t) {
      for (std::int64_t h = 0; h < c.value_head_dim; ++h)
        ASSERT_EQ(got.out.get(0, t, 0, h), 0) << "row " << t << " column " << h;
      ASSERT_EQ(got.lse.get(0, 0, 0, t), -kInfinity);
    }
    EXPECT_EQ(got.out.get(0, 0, 0, 5), kInfinity);
  }
}

// Only -inf means masked.
TEST(GpuSpecial, ARowWhoseLogitsAreNaNIsNoMaskedRow) {
  for (const dhyan_dtype dtype : kTypes) {
    Instance x(of_type(dtype), Random("a query of NaN"));
    for (std::int64_t h = 0; h < x.description.head_dim; ++h) x.query.set(1, 4, 2, h, kNaN);
    const Forward got = run_forward(cuda::naive_entry, x);
    EXPECT_TRUE(std::isnan(got.lse.get(1, 0, 2, 4)));
    for (std::int64_t h = 0; h < x.description.value_head_dim; ++h) EXPECT_TRUE(std::isnan(got.out.get(1, 4, 2, h)));
    EXPECT_FALSE(std::isnan(got.out.get(1, 3, 2, 0)));
    EXPECT_FALSE(std::isnan(got.out.get(1, 4, 1, 0)));
  }
}

// A masked row's weights are 0, whatever its gradients would be; what lies past a length or in a gap reaches nobody.
TEST(GpuSpecial, GradientsOfRowsThatSeeNothingAreZero) {
  for (const dhyan_dtype dtype : kTypes) {
    Case c = of_type(dtype);
    c.query_lengths = {7, 19};
    c.key_lengths = {37, 0};
    c.bias = DHYAN_F32;
    c.grad_bias = c.grad_lse = true;
    const Instance x(c, Random("rows that see nothing"));
    const Forward given = rounded(x, exact_forward(x));
    const Backward got = run_backward(cuda::naive_entry, x, given);
    for (std::int64_t n = 0; n < c.query_heads; ++n) {
      for (std::int64_t h = 0; h < c.head_dim; ++h) {
        ASSERT_EQ(got.grad_query.get(0, 8, n, h), 0);
        ASSERT_EQ(got.grad_query.get(1, 3, n, h), 0);
      }
      for (std::int64_t s = 0; s < c.key_length; ++s) ASSERT_EQ(got.grad_bias.get(1, n, 3, s), 0);
    }
    for (std::int64_t h = 0; h < c.head_dim; ++h) {
      ASSERT_EQ(got.grad_key.get(1, 5, 1, h), 0);
      ASSERT_EQ(got.grad_value.get(1, 5, 1, h), 0);
      EXPECT_NE(got.grad_key.get(0, 5, 1, h), 0);
    }
  }
}

// f32 is multiplied as f32 unless TF32 is asked for, which is neither ignored nor taken for less.
TEST(GpuSpecial, TensorFloat32IsUsedWhenAskedForOnly) {
  Case c = of_type(DHYAN_F32);
  c.query_length = c.key_length = 128;
  c.head_dim = c.value_head_dim = 64;
  const Instance x(c, Random("tf32"));
  const Forward exact = exact_forward(x);
  const Forward plain = run_forward(cuda::naive_entry, x);
  Instance fast(c, Random("tf32"));
  fast.problem.precision = DHYAN_PRECISION_TF32;
  const Forward tf32 = run_forward(cuda::naive_entry, fast);
  const double error = difference(plain.out.values(), exact.out.values()).relative;
  const double error_of_tf32 = difference(tf32.out.values(), exact.out.values()).relative;
  EXPECT_LT(error, 2e-6);
  EXPECT_GT(error_of_tf32, 2e-5);
  EXPECT_LT(error_of_tf32, 2e-3);

  const Forward given = rounded(x, exact);
  const Backward want = exact_backward(x, given);
  const Backward plain_gradients = run_backward(cuda::naive_entry, x, given);
  const Backward tf32_gradients = run_backward(cuda::naive_entry, fast, given);
  for (const auto gradient : {&Backward::grad_query, &Backward::grad_key, &Backward::grad_value}) {
    const auto error_of = [&](const Backward& got) {
      return difference((got.*gradient).values(), (want.*gradient).values()).relative;
    };
    EXPECT_LT(error_of(plain_gradients), 4e-6);
    EXPECT_GT(error_of(tf32_gradients), 2e-5);
    EXPECT_LT(error_of(tf32_gradients), 4e-3);
  }
}

TEST(GpuSpecial, EveryRunGivesTheSameBits) {
  for (const dhyan_dtype dtype : kTypes) {
    Case c = of_type(dtype);
    c.key_length = 1500;
    c.dropout = 0.2;
    const Instance x(c, Random("the same bits"));
    const Forward first = run_forward(cuda::naive_entry, x);
    for (int i = 0; i < 20; ++i) {
      const Forward again = run_forward(cuda::naive_entry, x);
      ASSERT_TRUE(same_bits(again.out, first.out)) << "run " << i;
      ASSERT_TRUE(same_bits(again.lse, first.lse)) << "run " << i;
    }
  }
}

TEST(GpuSpecial, EveryBackwardRunGivesTheSameBits) {
  for (const dhyan_dtype dtype : kTypes) {
    Case c = of_type(dtype);
    c.query_length = 200;
    c.key_length = 700;
    c.dropout = 0.2;
    c.bias = DHYAN_F32;
    c.bias_broadcast = {true, true, false, false};
    c.sink = c.grad_sink = c.grad_bias = true;
    const Instance x(c, Random("the same bits backward"));
    const Forward given = rounded(x, exact_forward(x));
    const Backward first = run_backward(cuda::naive_entry, x, given);
    for (int i = 0; i < 10; ++i) {
      const Backward again = run_backward(cuda::naive_entry, x, given);
      for (const auto gradient :
           {&Backward::grad_query, &Backward::grad_key, &Backward::grad_value, &Backward::grad_bias, &Backward::grad_sink}) {
        ASSERT_TRUE(same_bits(again.*gradient, first.*gradient)) << "run " << i;
      }
    }
  }
}

}  // namespace
}  // namespace dhyan::testing::gpu

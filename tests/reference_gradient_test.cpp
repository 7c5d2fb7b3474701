// SPDX-License-Identifier: Apache-2.0
// The reference's gradients against central finite differences of its own forward pass, for every option.
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "reference/reference.hpp"
#include "support/case.hpp"
#include "support/grid.hpp"

namespace dhyan::testing {
namespace {

// sum of grad_out o out + grad_lse o lse; rows with lse = -inf have no gradient.
double objective(const Instance& x) {
  const Forward y = forward(reference::entry, x);
  double sum = 0;
  const auto& shape = y.out.shape();
  for (std::int64_t b = 0; b < shape[0]; ++b)
    for (std::int64_t t = 0; t < shape[1]; ++t)
      for (std::int64_t n = 0; n < shape[2]; ++n) {
        const double lse = y.lse.get(b, 0, n, t);
        if (std::isinf(lse)) continue;
        for (std::int64_t h = 0; h < shape[3]; ++h) sum += x.grad_out.get(b, t, n, h) * y.out.get(b, t, n, h);
        if (x.grad_lse.present()) sum += x.grad_lse.get(b, 0, n, t) * lse;
      }
  return sum;
}

// Moves one element after the other; elements that hold no number (NaN, -inf) have gradient 0. f32 inputs move by steps they
// can hold.
void expect_derivatives(Instance& x, Array& input, const Array& gradient, const char* what) {
  if (!gradient.present()) return;
  const double step = input.dtype() == DHYAN_F64 ? 0x1p-17 : 0x1p-12;
  const auto& shape = input.shape();
  for (std::int64_t i = 0; i < shape[0]; ++i)
    for (std::int64_t j = 0; j < shape[1]; ++j)
      for (std::int64_t k = 0; k < shape[2]; ++k)
        for (std::int64_t l = 0; l < shape[3]; ++l) {
          const double got = gradient.get(i, j, k, l);
          const double before = input.get(i, j, k, l);
          if (!std::isfinite(before)) {
            ASSERT_EQ(got, 0) << what;
            continue;
          }
          input.set(i, j, k, l, before + step);
          const double up = input.get(i, j, k, l);
          const double above = objective(x);
          input.set(i, j, k, l, before - step);
          const double down = input.get(i, j, k, l);
          const double below = objective(x);
          input.set(i, j, k, l, before);
          const double tolerance = (step < 1e-4 ? 1e-7 : 1e-5) * (1 + std::abs(got));
          ASSERT_NEAR(got, (above - below) / (up - down), tolerance)
              << what << " [" << i << ',' << j << ',' << k << ',' << l << ']';
        }
}

class Gradient : public ::testing::TestWithParam<Case> {};

TEST_P(Gradient, EqualsFiniteDifferences) {
  Case c = GetParam();
  c.dtype = DHYAN_F64;
  c.threads = 1;
  SCOPED_TRACE(describe(c) + ", seed " + std::to_string(run_seed()));
  Instance x(c, Random(describe(c)));
  const Forward y = forward(reference::entry, x);
  const Backward g = backward(reference::entry, x, y);
  expect_derivatives(x, x.query, g.grad_query, "query");
  expect_derivatives(x, x.key, g.grad_key, "key");
  expect_derivatives(x, x.value, g.grad_value, "value");
  expect_derivatives(x, x.bias, g.grad_bias, "bias");
  expect_derivatives(x, x.sink, g.grad_sink, "sink");
}

INSTANTIATE_TEST_SUITE_P(EveryOption, Gradient, ::testing::ValuesIn(one_option_cases(tiny_case())), case_name);

}  // namespace
}  // namespace dhyan::testing

// SPDX-License-Identifier: Apache-2.0
#include "support/check.hpp"

#include <gtest/gtest.h>

#include "cpu/fused.hpp"
#include "cpu/naive.hpp"
#include "support/bounds.hpp"
#include "support/compare.hpp"

namespace dhyan::testing {
namespace {

void check_backward(const Instance& x, const Forward& given) {
  const Backward want = exact_backward(x, given);
  const BackwardBounds bounds = backward_bounds(x, given, want);
  for (const core::ImplementationEntry* entry : implementations()) {
    if (!refusal(*entry, x.problem).empty()) continue;
    const Backward got = backward(*entry, x, given);
    const auto check = [&](const char* what, const Array& g, const Array& w, const Bound& bound) {
      if (!w.present()) return;
      EXPECT_TRUE(within(g, w, bound)) << entry->name << " backward, " << what;
    };
    check("grad_query", got.grad_query, want.grad_query, bounds.grad_query);
    check("grad_key", got.grad_key, want.grad_key, bounds.grad_key);
    check("grad_value", got.grad_value, want.grad_value, bounds.grad_value);
    check("grad_bias", got.grad_bias, want.grad_bias, bounds.grad_bias);
    check("grad_sink", got.grad_sink, want.grad_sink, bounds.grad_sink);
  }
}

}  // namespace

const std::vector<const core::ImplementationEntry*>& implementations() {
  static const std::vector<const core::ImplementationEntry*> all{&cpu::naive_entry, &cpu::fused_entry};
  return all;
}

void check_case(const Instance& x) {
  SCOPED_TRACE(describe(x.description) + ", seed " + std::to_string(run_seed()));
  const Forward want = exact_forward(x);
  const ForwardBounds bounds = forward_bounds(x, want);
  for (const core::ImplementationEntry* entry : implementations()) {
    const std::string reason = refusal(*entry, x.problem);
    if (!reason.empty()) {
      EXPECT_EQ(x.problem.dtype, DHYAN_F64) << entry->name << " refuses: " << reason;
      continue;
    }
    const Forward got = forward(*entry, x);
    EXPECT_TRUE(within(got.out, want.out, bounds.out)) << entry->name << " forward, out";
    if (!got.lse.present()) continue;
    EXPECT_TRUE(within(got.lse, want.lse, bounds.lse)) << entry->name << " forward, lse";
  }
  const Case& c = x.description;
  if (c.lse && (c.grad_query || c.grad_key || c.grad_value || c.grad_bias || c.grad_sink)) check_backward(x, rounded(x, want));
}

void check_case(const Case& c) { check_case(Instance(c, Random(describe(c)))); }

}  // namespace dhyan::testing

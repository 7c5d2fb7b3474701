// SPDX-License-Identifier: Apache-2.0
// Properties of the fused forward pass that the grid of options does not reach.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "cpu/fused.hpp"
#include "support/check.hpp"
#include "support/compare.hpp"
#include "support/grid.hpp"

namespace dhyan::testing {
namespace {

constexpr dhyan_dtype kTypes[] = {DHYAN_F32, DHYAN_BF16, DHYAN_F16};

Case plain(dhyan_dtype dtype, std::int64_t t, std::int64_t s, std::int64_t h, std::int64_t hv) {
  Case c;
  c.dtype = dtype;
  c.batch = 1;
  c.query_length = t;
  c.key_length = s;
  c.query_heads = c.key_heads = 2;
  c.head_dim = h;
  c.value_head_dim = hv;
  c.grad_query = c.grad_key = c.grad_value = false;
  return c;
}

void check(const Case& c) {
  if (!left_out(c)) check_case(c);
}

TEST(FusedForward, MatchesTheReferenceAcrossTileBoundaries) {
  for (const dhyan_dtype dtype : kTypes) {
    for (const std::int64_t t : {1, 47, 48, 49, 97, 530}) {
      for (const std::int64_t s : {1, 63, 128, 129, 256, 257, 700}) {
        for (const bool causal : {false, true}) {
          Case c = plain(dtype, t, s, 40, 24);
          if (causal) c.causal = DHYAN_CAUSAL_BOTTOM_RIGHT;
          check(c);
        }
      }
    }
  }
}

TEST(FusedForward, MatchesTheReferenceForEveryKindOfHeadDimension) {
  for (const dhyan_dtype dtype : kTypes) {
    for (const std::int64_t h : {1, 2, 15, 16, 17, 33, 64, 80, 96, 129, 256, 257, 512}) {
      for (const std::int64_t hv : {1, 31, 64, 112, 512}) check(plain(dtype, 50, 150, h, hv));
    }
  }
}

TEST(FusedForward, MatchesTheReferenceForGroupsOfHeads) {
  for (const dhyan_dtype dtype : kTypes) {
    for (const std::int64_t group : {1, 3, 4, 50, 71}) {
      for (const std::int64_t t : {1, 2, 5, 33, 60}) {
        Case c = plain(dtype, t, 300, 32, 32);
        c.query_heads = 2 * group;
        c.causal = DHYAN_CAUSAL_BOTTOM_RIGHT;
        check(c);
        c.window_left = 70;
        c.dropout = 0.2;
        c.bias = DHYAN_F32;
        check(c);
      }
    }
  }
}

TEST(FusedForward, SkipsBlocksThatAWindowHides) {
  for (const dhyan_dtype dtype : kTypes) {
    for (const auto& [left, right] : {std::pair{0, 0}, {5, 0}, {0, 130}, {200, 3}, {-1, 9}, {300, -1}}) {
      for (const std::int64_t origin : {0, 300, 900}) {
        Case c = plain(dtype, 400, 700, 16, 16);
        c.window_left = left;
        c.window_right = right;
        c.query_origin = origin;
        check(c);
      }
    }
  }
}

TEST(FusedForward, StreamsKeysForAFewQueries) {
  for (const dhyan_dtype dtype : kTypes) {
    for (const std::int64_t h : {1, 8, 20, 33, 64, 97, 129}) {
      for (const std::int64_t group : {1, 3, 8}) {
        for (const std::int64_t s : {1, 15, 300, 5000}) {
          Case c = plain(dtype, 8 / group, s, h, 130 - h);
          c.query_heads = 2 * group;
          c.sink = s == 300;
          check(c);
          c.layout = Layout::heads_first;
          c.dropout = 0.3;
          c.softcap = 2;
          c.key_lengths = {s / 2};
          c.query_lengths = {(8 / group + 1) / 2};
          check(c);
          c.window_left = 600;
          c.causal = DHYAN_CAUSAL_BOTTOM_RIGHT;
          check(c);
        }
      }
    }
  }
}

TEST(FusedForward, HasTheSameBitsForEveryThreadCount) {
  for (const dhyan_dtype dtype : kTypes) {
    for (const std::int64_t t : {1, 7, 200, 1100}) {
      Case c = plain(dtype, t, 1100, 64, 64);
      c.query_heads = 4;
      c.causal = DHYAN_CAUSAL_BOTTOM_RIGHT;
      const Instance x(c, Random(describe(c)));
      const Forward one = forward(cpu::fused_entry, x, 1);
      for (const int threads : {2, 3, 16}) {
        const Forward many = forward(cpu::fused_entry, x, threads);
        EXPECT_TRUE(same_bits(many.out, one.out)) << describe(c) << " threads " << threads;
        EXPECT_TRUE(same_bits(many.lse, one.lse)) << describe(c) << " threads " << threads;
      }
    }
  }
}

TEST(FusedForward, KeepsScratchPerThreadWithinItsBoundWhateverTheLength) {
  for (const dhyan_dtype dtype : kTypes) {
    for (const std::int64_t length : {1, 1000, 1 << 20}) {
      for (const std::int64_t h : {1, 64, 512}) {
        for (const std::int64_t group : {1, 8, 128}) {
          for (const int threads : {1, 16}) {
            core::Problem p;
            p.dtype = dtype;
            p.batch = 1;
            p.query_length = p.query_tokens = p.key_length = p.key_tokens = length;
            p.key_heads = 2;
            p.query_heads = 2 * group;
            p.head_dim = p.value_head_dim = h;
            p.scale = 1;
            p.threads = threads;
            const auto plan = cpu::plan_fused_forward(p, test_device());
            EXPECT_LE(plan->scratch_bytes(), static_cast<std::size_t>(threads) << 24)
                << describe(plain(dtype, length, length, h, h));
          }
        }
      }
    }
  }
}

TEST(FusedForward, RefusesF64AndSaysWhatWorks) {
  const Instance x(plain(DHYAN_F64, 3, 5, 4, 4), Random("f64"));
  const std::string reason = refusal(cpu::fused_entry, x.problem);
  EXPECT_NE(reason.find("f64"), std::string::npos);
  EXPECT_NE(reason.find("reference"), std::string::npos);
}

}  // namespace
}  // namespace dhyan::testing

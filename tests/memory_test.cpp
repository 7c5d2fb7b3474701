// SPDX-License-Identifier: Apache-2.0
// What implementations need beside their inputs and outputs.
#include <gtest/gtest.h>
#include <malloc.h>

#include <cmath>
#include <fstream>
#include <string>

#include "cpu/fused.hpp"
#include "cpu/naive.hpp"
#include "reference/reference.hpp"
#include "support/bounds.hpp"
#include "support/compare.hpp"
#include "support/grid.hpp"

namespace dhyan::testing {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

// A problem without tensors: enough to plan.
core::Problem planned(dhyan_dtype dtype, std::int64_t length, std::int64_t query_heads, std::int64_t key_heads,
                      std::int64_t h) {
  core::Problem p;
  p.dtype = dtype;
  p.batch = 1;
  p.query_length = p.query_tokens = p.key_length = p.key_tokens = length;
  p.query_heads = query_heads;
  p.key_heads = key_heads;
  p.head_dim = p.value_head_dim = h;
  p.scale = 1 / std::sqrt(static_cast<double>(h));
  p.threads = 2;
  const core::Operand queries{dtype, {length * query_heads * h, query_heads * h, h}, 16};
  const core::Operand keys{dtype, {length * key_heads * h, key_heads * h, h}, 16};
  p.query = p.out = queries;
  p.key = p.value = keys;
  p.lse = {DHYAN_F32, {length * query_heads, length, 1}, 4};
  return p;
}

core::Problem backward_of(core::Problem p) {
  p.direction = DHYAN_BACKWARD;
  p.grad_out = p.grad_query = p.query;
  p.grad_key = p.grad_value = p.key;
  return p;
}

std::int64_t scratch(const core::ImplementationEntry& entry, const core::Problem& p) {
  EXPECT_EQ(refusal(entry, p), "");
  return static_cast<std::int64_t>(entry.plan(p, test_device())->scratch_bytes());
}

TEST(Memory, FusedForwardScratchDoesNotGrowWithTheLength) {
  for (const dhyan_dtype dtype : {DHYAN_F32, DHYAN_BF16, DHYAN_F16}) {
    for (const std::int64_t length : {1024, 65536, 1 << 24}) {
      for (const std::int64_t h : {64, 128, 512}) {
        core::Problem p = planned(dtype, length, 8, 2, h);
        EXPECT_LE(scratch(cpu::fused_entry, p), p.threads * 16 * kMiB) << length << ' ' << h;
        p.query_length = p.query_tokens = 1;
        EXPECT_LE(scratch(cpu::fused_entry, p), p.threads * 16 * kMiB) << "one query, " << length << ' ' << h;
      }
    }
  }
}

TEST(Memory, FusedBackwardScratchIsAtMostOneF32CopyOfTheGradients) {
  for (const dhyan_dtype dtype : {DHYAN_F32, DHYAN_BF16, DHYAN_F16}) {
    for (const std::int64_t length : {4096, 65536}) {
      for (const std::int64_t key_heads : {8, 2}) {
        core::Problem p = backward_of(planned(dtype, length, 8, key_heads, 64));
        const std::int64_t copy = length * 8 * 64 * 4 + (key_heads < 8 ? 2 * length * key_heads * 64 * 4 : 0);
        const std::int64_t rows = length * 8 * 4 * 4;  // delta and the like
        EXPECT_LE(scratch(cpu::fused_entry, p), copy + rows + p.threads * 16 * kMiB) << length << ' ' << key_heads;
      }
    }
  }
}

// dbias shared by batch entries or heads: no matrix of all scores.
TEST(Memory, FusedBiasGradientThatIsSharedNeedsNoScores) {
  core::Problem p = backward_of(planned(DHYAN_BF16, 16384, 8, 8, 64));
  const std::int64_t without = scratch(cpu::fused_entry, p);
  p.bias = p.grad_bias = {DHYAN_F32, {0, 0, 16384, 1}, 16};
  p.bias_shape = {1, 1, 16384, 16384};
  EXPECT_LE(scratch(cpu::fused_entry, p), without + p.threads * 16 * kMiB + 16384 * 8 * 16);
}

TEST(Memory, NaiveRefusesWhenScoresNeedMoreThan80PercentAndNamesTheBytes) {
  dhyan_device_description device = test_device();
  const core::Problem p = planned(DHYAN_F32, 1024, 2, 2, 64);
  constexpr std::int64_t scores = std::int64_t{2} * 1024 * 1024 * 4;
  device.memory_bytes = scores * 5 / 4;
  EXPECT_FALSE(cpu::naive_entry.refuse(p, device).has_value());
  device.memory_bytes = scores * 5 / 4 - 8;
  const std::string reason = cpu::naive_entry.refuse(p, device).value_or("");
  EXPECT_NE(reason.find(std::to_string(scores) + " bytes"), std::string::npos) << reason;
  EXPECT_NE(reason.find("fused"), std::string::npos) << reason;
  const std::string backward = cpu::naive_entry.refuse(backward_of(p), device).value_or("");
  EXPECT_NE(backward.find(std::to_string(2 * scores) + " bytes"), std::string::npos) << backward;
  device = test_device();
  EXPECT_TRUE(cpu::naive_entry.refuse(planned(DHYAN_F32, std::int64_t{1} << 40, 8, 8, 64), device).has_value());
}

std::int64_t resident_peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return std::stoll(line.substr(6)) * 1024;
  }
  return -1;
}

// 65536 queries and keys would need 16 GiB of scores.
TEST(Memory, FusedOf65536TokensStaysUnderOneGibibyte) {
  if (small_grid()) GTEST_SKIP() << "takes minutes under a sanitizer";
  constexpr std::int64_t length = 65536;
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak starts from here
  const std::int64_t before = resident_peak_bytes();
  Case c;
  c.dtype = DHYAN_BF16;
  c.batch = 1;
  c.query_length = c.key_length = length;
  c.query_heads = c.key_heads = 1;
  c.head_dim = c.value_head_dim = 64;
  c.causal = DHYAN_CAUSAL_TOP_LEFT;
  const Instance x(c, Random("65536"));
  const Forward y = forward(cpu::fused_entry, x);
  const std::int64_t peak = resident_peak_bytes();
  EXPECT_LT(peak - before, 1024 * kMiB);

  // The last rows alone, as a shard of the problem.
  Case shard = c;
  shard.query_length = 3;
  shard.query_origin = length - 3;
  Instance rows(shard, Random("65536"));
  rows.query.fill([&](auto, std::int64_t t, auto, std::int64_t h) { return x.query.get(0, length - 3 + t, 0, h); });
  rows.key = x.key;
  rows.value = x.value;
  const Forward want = exact_forward(rows);
  const ForwardBounds bounds = forward_bounds(rows, want);
  Array out = rows.out.like();
  out.fill([&](auto, std::int64_t t, auto, std::int64_t h) { return y.out.get(0, length - 3 + t, 0, h); });
  EXPECT_TRUE(within(out, want.out, bounds.out));
}

}  // namespace
}  // namespace dhyan::testing

// SPDX-License-Identifier: Apache-2.0
// The test vectors of docs/semantics.md and of the public header.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>

#include "core/philox.hpp"

namespace dhyan::core {
namespace {

using Words = std::array<std::uint32_t, 4>;

Problem with_dropout(double probability, std::uint64_t seed, std::uint64_t offset) {
  Problem p;
  p.dropout = {probability, static_cast<std::uint64_t>(probability * 0x1p32), seed + 0x9E3779B97F4A7C15u * offset};
  return p;
}

std::string kept(const Problem& p, std::int64_t b, std::int64_t n, std::int64_t t) {
  std::string row;
  for (std::int64_t s = 0; s < 16; ++s) row += keeps(p, b, n, t, s) ? '1' : '0';
  return row;
}

TEST(DropoutRule, GeneratorGivesThePublishedWords) {
  EXPECT_EQ(philox(0, {0, 0, 0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(~0ull, {~0u, ~0u, ~0u, ~0u}), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(DropoutRule, SeedAndOffsetMakeTheKey) {
  const Problem p = with_dropout(0.5, 1234, 7);
  EXPECT_EQ(p.dropout.key, 0x538454127b096965);
  EXPECT_EQ(philox(p.dropout.key, {0, 5, 3, 1}), (Words{0xa279a380, 0x1a0e3f6a, 0xc7f31e4a, 0x44c55fa2}));
}

TEST(DropoutRule, KeepsTheDocumentedWeights) {
  EXPECT_EQ(kept(with_dropout(0.5, 1234, 0), 0, 0, 0), "0101101001111001");
  EXPECT_EQ(kept(with_dropout(0.1, 1234, 0), 0, 0, 0), "1111111011111111");
  EXPECT_EQ(kept(with_dropout(0.5, 1234, 7), 1, 3, 5), "1010100010011100");
}

TEST(DropoutRule, OriginsMoveAShardWithinTheWhole) {
  const Problem whole = with_dropout(0.5, 1234, 7);
  Problem shard = whole;
  shard.batch_origin = 1;
  shard.head_origin = 2;
  shard.query_origin = 5;
  shard.key_origin = 3;
  for (std::int64_t s = 0; s < 16; ++s) EXPECT_EQ(keeps(shard, 0, 1, 0, s), keeps(whole, 1, 3, 5, s + 3)) << s;
}

}  // namespace
}  // namespace dhyan::core

// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) and the dropout rule of dhyan.h.
#pragma once

#include <array>
#include <cstdint>

#include "core/host_device.hpp"
#include "core/problem.hpp"

namespace dhyan::core {

DHYAN_HOST_DEVICE inline std::array<std::uint32_t, 4> philox(std::uint64_t key, std::array<std::uint32_t, 4> counter) {
  std::uint32_t key_low = static_cast<std::uint32_t>(key);
  std::uint32_t key_high = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t first = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t second = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(second >> 32) ^ counter[1] ^ key_low, static_cast<std::uint32_t>(second),
               static_cast<std::uint32_t>(first >> 32) ^ counter[3] ^ key_high, static_cast<std::uint32_t>(first)};
    key_low += 0x9E3779B9;
    key_high += 0xBB67AE85;
  }
  return counter;
}

// The random words of the four weights that share a block with (b, n, t) and this key position of the whole problem.
DHYAN_HOST_DEVICE inline std::array<std::uint32_t, 4> keep_words(const Problem& p, std::int64_t b, std::int64_t n,
                                                                 std::int64_t t, std::uint64_t key_position) {
  return philox(p.dropout.key, {static_cast<std::uint32_t>(key_position / 4), static_cast<std::uint32_t>(t + p.query_origin),
                                static_cast<std::uint32_t>(n + p.head_origin), static_cast<std::uint32_t>(b + p.batch_origin)});
}

// Whether the weight of (b, n, t, s), positions inside this shard, is kept.
DHYAN_HOST_DEVICE inline bool keeps(const Problem& p, std::int64_t b, std::int64_t n, std::int64_t t, std::int64_t s) {
  const std::uint64_t key_position = static_cast<std::uint64_t>(s + p.key_origin);
  return keep_words(p, b, n, t, key_position)[key_position % 4] >= p.dropout.threshold;
}

}  // namespace dhyan::core

// SPDX-License-Identifier: Apache-2.0
// The codelab's own inputs: JAX's threefry keys, split and normal, bit for bit as JAX 0.11 gives them on a CPU with FMA.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dhyan::lab {

struct RandomKey {
  std::uint32_t high = 0;
  std::uint32_t low = 0;
};

// jax.random.key(seed).
RandomKey random_key(std::uint64_t seed);

// jax.random.split(key, count).
std::vector<RandomKey> split(RandomKey key, int count);

// jax.random.normal(key, shape) for a shape of values.size() elements: float32.
void normal(RandomKey key, std::span<float> values);

// The same for bfloat16, as bits. Drawn from 8 random bits each: not the float32 values rounded.
void normal_bf16(RandomKey key, std::span<std::uint16_t> values);

}  // namespace dhyan::lab

// SPDX-License-Identifier: Apache-2.0
// Query, key and value as the steps draw them.
#pragma once

#include <cstdint>

#include "lab/random.hpp"
#include "problem/call.hpp"

namespace dhyan::lab {

// The lab's default sizes; the layout is (B, T, N, H).
inline constexpr std::int64_t batch = 4, sequence = 128, heads = 8, head_dim = 64;

struct Inputs {
  app::Array query, key, value;
};

// jax.random.normal(key, shape) in f32 or bf16.
app::Array normal_array(RandomKey key, app::Element element, const app::Shape& shape);
// Query, key and value of one shape, in this order from the seed's key split in three.
Inputs normal_inputs(std::uint64_t seed, app::Element element, const app::Shape& shape);

// A call with copies of the inputs, rounded to nearest even where `element` is another type.
app::Call call_of(const Inputs& inputs, app::Element element, Causal causal = Causal::off);
// The first queries, and the first keys with their values.
Inputs prefix(const Inputs& inputs, std::int64_t queries, std::int64_t keys);

// "(4, 128, 8, 64)"
std::string shape_text(std::span<const std::int64_t> shape);

}  // namespace dhyan::lab

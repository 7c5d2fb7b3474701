// SPDX-License-Identifier: Apache-2.0
// Causal attention of random numbers, written by one call; then the same call with shapes that do not fit.
#include <cstdio>
#include <dhyan/dhyan.hpp>
#include <random>
#include <vector>

int main() {
  const std::int64_t batch = 2, tokens = 128, heads = 8, key_heads = 2, head_dim = 64;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  const auto numbers = [&](std::int64_t count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = normal(random);
    return values;
  };
  const auto query = numbers(batch * tokens * heads * head_dim);
  const auto key = numbers(batch * tokens * key_heads * head_dim);
  const auto value = numbers(batch * tokens * key_heads * head_dim);
  std::vector<float> out(query.size());

  const dhyan::TensorView q(query.data(), {batch, tokens, heads, head_dim});
  const dhyan::TensorView k(key.data(), {batch, tokens, key_heads, head_dim});
  const dhyan::TensorView v(value.data(), {batch, tokens, key_heads, head_dim});
  const dhyan::TensorView o(out.data(), {batch, tokens, heads, head_dim});
  dhyan::attention(q, k, v, o, {.causal = dhyan::Causal::top_left});

  // The first query sees the first key alone, so its output is the first value.
  std::printf("dhyan %s: out[0] = %g, value[0] = %g\n", dhyan_version(), out[0], value[0]);
  if (out[0] != value[0]) return 1;

  try {
    dhyan::attention(q, k, dhyan::TensorView(value.data(), {batch, tokens / 2, key_heads, head_dim}), o);
  } catch (const dhyan::Error& error) {
    std::printf("refused: %s\n", error.what());
    return 0;
  }
  return 1;
}

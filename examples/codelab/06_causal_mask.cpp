// SPDX-License-Identifier: Apache-2.0
// Step 6, causal masking: a token may look back, not ahead. The first row changes most, the last one not at all.
#include <cstdio>

#include "common.hpp"

int main() {
  const std::int64_t B = 4, T = 128, N = 8, H = 64;
  const std::int64_t count = B * T * N * H;
  const std::vector<float> query = normal_numbers(count, 1), key = normal_numbers(count, 2), value = normal_numbers(count, 3);
  std::vector<float> full(query.size()), causal(query.size());
  const auto view = [&](auto& numbers) { return dhyan::TensorView(numbers.data(), {B, T, N, H}); };

  dhyan::attention(view(query), view(key), view(value), view(full));
  dhyan::attention(view(query), view(key), view(value), view(causal), {.causal = dhyan::Causal::top_left});

  // The largest difference between two arrays in the rows of one token.
  const auto at_token = [&](std::int64_t t, const std::vector<float>& a, const std::vector<float>& b) {
    double largest = 0;
    for (std::int64_t entry = 0; entry < B; ++entry) {
      for (std::int64_t i = 0; i < N * H; ++i) {
        const auto index = static_cast<std::size_t>((entry * T + t) * N * H + i);
        largest = std::max(largest, std::abs(double{a[index]} - b[index]));
      }
    }
    return largest;
  };
  std::printf("%-16s %s\n", "Position", "Max diff (causal vs full)");
  for (const std::int64_t t : {std::int64_t{0}, T / 4, T / 2, T - 1}) {
    std::printf("t = %-12ld %.2e\n", t, at_token(t, causal, full));
  }
  // The first token sees itself alone: its weight is 1, its output its own value.
  const double first = at_token(0, causal, value);
  std::printf("\nfirst row against its own value: %.2e\n", first);
  return at_token(0, causal, full) > 0.1 && at_token(T - 1, causal, full) < 1e-5 && first == 0 ? 0 : 1;
}

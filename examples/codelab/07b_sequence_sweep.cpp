// SPDX-License-Identifier: Apache-2.0
// Step 7b, longer sequences: work grows with the square of the length, and so does naive's matrix of weights.
#include <cstdio>

#include "common.hpp"

int main() {
  const std::int64_t B = 1, N = 8, H = 64;
  bool close = true;
  std::printf("%8s %12s %12s %10s\n", "Seq len", "naive ms", "fused ms", "Speed-up");
  for (const std::int64_t T : {64, 128, 256, 512, 1024}) {
    const std::int64_t count = B * T * N * H;
    const auto seed = static_cast<unsigned>(T);
    const auto query = normal_numbers(count, seed), key = normal_numbers(count, seed + 1),
               value = normal_numbers(count, seed + 2);
    std::vector<float> naive(query.size()), fused(query.size());
    const auto view = [&](auto& numbers) { return dhyan::TensorView(numbers.data(), {B, T, N, H}); };
    const auto time = [&](dhyan::Implementation implementation, std::vector<float>& out) {
      return median_ms(
          3, [&] { dhyan::attention(view(query), view(key), view(value), view(out), {.implementation = implementation}); });
    };
    const double naive_ms = time(dhyan::Implementation::naive, naive), fused_ms = time(dhyan::Implementation::fused, fused);
    std::printf("%8ld %12.3f %12.3f %9.2fx\n", T, naive_ms, fused_ms, naive_ms / fused_ms);
    close = close && largest_difference(naive, fused) < 1e-5;
  }
  return close ? 0 : 1;
}

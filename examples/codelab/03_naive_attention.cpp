// SPDX-License-Identifier: Apache-2.0
// Step 3, naive attention: scores, softmax, weighted sum, written as loops; then the library's `naive` on the same numbers.
#include <cstdio>

#include "common.hpp"

int main() {
  const std::int64_t B = 4, T = 128, N = 8, H = 64;
  const std::int64_t count = B * T * N * H;
  const std::vector<float> query = normal_numbers(count, 1), key = normal_numbers(count, 2), value = normal_numbers(count, 3);
  std::vector<float> by_hand(query.size()), by_library(query.size());
  std::vector<float> weights(static_cast<std::size_t>(B * N * T * T));  // what makes this naive: all of them, at once

  const auto at = [&](std::int64_t b, std::int64_t t, std::int64_t n) { return ((b * T + t) * N + n) * H; };
  const float scale = 1 / std::sqrt(static_cast<float>(H));
  double worst_sum = 0;
  for (std::int64_t b = 0; b < B; ++b) {
    for (std::int64_t n = 0; n < N; ++n) {
      for (std::int64_t t = 0; t < T; ++t) {
        const float* q = &query[at(b, t, n)];
        float* row = &weights[((b * N + n) * T + t) * T];

        // 1. Scores: how well does the query fit each key?
        for (std::int64_t s = 0; s < T; ++s) {
          const float* k = &key[at(b, s, n)];
          row[s] = 0;
          for (std::int64_t h = 0; h < H; ++h) row[s] += q[h] * k[h];
          row[s] *= scale;
        }
        // 2. Softmax: positive weights that add up to 1. Less the largest, so that exp cannot overflow.
        const float largest = *std::max_element(row, row + T);
        float sum = 0;
        for (std::int64_t s = 0; s < T; ++s) sum += row[s] = std::exp(row[s] - largest);
        double total = 0;
        for (std::int64_t s = 0; s < T; ++s) total += row[s] /= sum;
        worst_sum = std::max(worst_sum, std::abs(total - 1));
        // 3. Output: the values, mixed by these weights.
        float* out = &by_hand[at(b, t, n)];
        for (std::int64_t s = 0; s < T; ++s)
          for (std::int64_t h = 0; h < H; ++h) out[h] += row[s] * value[at(b, s, n) + h];
      }
    }
  }

  const auto view = [&](auto& numbers) { return dhyan::TensorView(numbers.data(), {B, T, N, H}); };
  dhyan::attention(view(query), view(key), view(value), view(by_library), {.implementation = dhyan::Implementation::naive});
  const double difference = largest_difference(by_hand, by_library);
  std::printf("output: (%ld, %ld, %ld, %ld) float32, the query's shape\n", B, T, N, H);
  std::printf("weights: %ld x %ld for each of %ld heads, %zu bytes in all\n", T, T, B * N, weights.size() * sizeof(float));
  std::printf("weights of a row add up to 1 within %.1e\n", worst_sum);
  std::printf("largest difference, loops against Implementation::naive: %.2e\n", difference);
  return worst_sum < 1e-5 && difference < 1e-5 ? 0 : 1;
}

// SPDX-License-Identifier: Apache-2.0
// Step 4, fused against naive: one call, never a whole matrix of weights, the same result.
#include <cstdio>

#include "common.hpp"

int main() {
  const std::int64_t B = 4, T = 128, N = 8, H = 64;
  const std::int64_t count = B * T * N * H;
  const std::vector<float> query = normal_numbers(count, 1), key = normal_numbers(count, 2), value = normal_numbers(count, 3);
  const auto view = [&](auto& numbers) { return dhyan::TensorView(numbers.data(), {B, T, N, H}); };

  const auto attend = [&](dhyan::Implementation implementation) {
    std::vector<float> out(query.size());
    dhyan::attention(view(query), view(key), view(value), view(out), {.implementation = implementation});
    return out;
  };
  const auto naive = attend(dhyan::Implementation::naive);
  const auto fused = attend(dhyan::Implementation::fused);
  const auto exact = attend(dhyan::Implementation::reference);  // float64 inside

  bool close = true;
  for (std::size_t i = 0; i < naive.size(); ++i)
    close = close && std::abs(naive[i] - fused[i]) <= 1e-3 + 1e-5 * std::abs(fused[i]);
  std::printf("max |naive - fused|:      %.2e\n", largest_difference(naive, fused));
  std::printf("max |naive - reference|:  %.2e\n", largest_difference(naive, exact));
  std::printf("max |fused - reference|:  %.2e\n", largest_difference(fused, exact));
  std::printf("outputs close (atol 1e-3, rtol 1e-5): %s\n\n", close ? "yes" : "no");

  // A plan says what the default, `auto`, chooses for this problem, and why.
  std::vector<float> out(query.size());
  const auto plan = dhyan::Plan::forward({.query = view(query), .key = view(key), .value = view(value), .out = view(out)});
  std::printf("%s\n", plan.describe().c_str());
  return close && largest_difference(fused, exact) < 1e-5 ? 0 : 1;
}

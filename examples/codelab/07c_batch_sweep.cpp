// SPDX-License-Identifier: Apache-2.0
// Step 7c, larger batches: entries know nothing of each other, so time grows with their number and results stay what they were.
#include <cstdio>

#include "common.hpp"

int main() {
  const std::int64_t most = 16, T = 256, N = 8, H = 64;
  const std::int64_t count = most * T * N * H;
  const auto query = normal_numbers(count, 1), key = normal_numbers(count, 2), value = normal_numbers(count, 3);
  std::vector<float> alone, out(query.size());
  bool same = true;
  std::printf("%8s %12s %14s\n", "Batch", "fused ms", "ms per entry");
  for (std::int64_t B = 1; B <= most; B *= 2) {
    const auto view = [&](auto& numbers) { return dhyan::TensorView(numbers.data(), {B, T, N, H}); };  // the first B entries
    const double ms = median_ms(5, [&] {
      dhyan::attention(view(query), view(key), view(value), view(out), {.implementation = dhyan::Implementation::fused});
    });
    std::printf("%8ld %12.3f %14.3f\n", B, ms, ms / static_cast<double>(B));

    const std::vector<float> first(out.begin(), out.begin() + T * N * H);
    if (alone.empty()) alone = first;
    same = same && largest_difference(first, alone) < 1e-5;
  }
  return same ? 0 : 1;
}

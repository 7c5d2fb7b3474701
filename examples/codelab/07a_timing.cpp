// SPDX-License-Identifier: Apache-2.0
// Step 7a, timing: the median of repeated calls, since a single one says little on a machine that does other things too.
#include <cstdio>
#include <cstring>

#include "common.hpp"

constexpr std::int64_t B = 4, T = 128, N = 8, H = 64;

// One row of the table. Returns whether the last timed call gave the same bits as the first call.
template <class Number>
bool row(const char* name, dhyan::Implementation implementation, double* baseline) {
  const std::int64_t count = B * T * N * H;
  const auto query = converted<Number>(normal_numbers(count, 1));
  const auto key = converted<Number>(normal_numbers(count, 2));
  const auto value = converted<Number>(normal_numbers(count, 3));
  std::vector<Number> out(query.size());
  const auto view = [&](auto& numbers) { return dhyan::TensorView(numbers.data(), {B, T, N, H}); };
  const auto call = [&] {
    dhyan::attention(view(query), view(key), view(value), view(out), {.implementation = implementation});
  };

  call();
  const std::vector<Number> first = out;
  const double ms = median_ms(20, call);
  if (*baseline == 0) *baseline = ms;
  std::printf("%-12s %10.3f %9.2fx\n", name, ms, *baseline / ms);
  return std::memcmp(first.data(), out.data(), out.size() * sizeof(Number)) == 0;
}

int main() {
  double naive_f32 = 0;  // what the others are compared with
  std::printf("B=%ld, T=%ld, N=%ld, H=%ld\n%-12s %10s %10s\n", B, T, N, H, "", "Median ms", "Speed-up");
  const bool same[] = {row<float>("naive f32", dhyan::Implementation::naive, &naive_f32),
                       row<float>("fused f32", dhyan::Implementation::fused, &naive_f32),
                       row<dhyan::BFloat16>("naive bf16", dhyan::Implementation::naive, &naive_f32),
                       row<dhyan::BFloat16>("fused bf16", dhyan::Implementation::fused, &naive_f32)};
  return same[0] && same[1] && same[2] && same[3] ? 0 : 1;
}

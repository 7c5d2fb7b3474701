// SPDX-License-Identifier: Apache-2.0
// Step 8, heads that share keys and values: multi-head, grouped-query, multi-query. The output's shape is always the query's.
#include <cstdio>

#include "common.hpp"

int main() {
  const std::int64_t B = 2, T = 64, N = 8, H = 64;
  const auto query = normal_numbers(B * T * N * H, 42);
  std::vector<float> out(query.size()), out_repeated(query.size());
  const dhyan::TensorView q(query.data(), {B, T, N, H}), o(out.data(), {B, T, N, H});
  bool right = true;

  std::printf("%-8s %-16s %-16s %-16s %s\n", "Pattern", "Q shape", "K, V shape", "Output shape", "KV bytes per token (bf16)");
  for (const std::int64_t K : {8, 2, 1}) {
    const auto key = normal_numbers(B * T * K * H, 43), value = normal_numbers(B * T * K * H, 44);
    dhyan::attention(q, dhyan::TensorView(key.data(), {B, T, K, H}), dhyan::TensorView(value.data(), {B, T, K, H}), o);
    std::printf("%-8s (%ld, %ld, %ld, %ld)   (%ld, %ld, %ld, %ld)   (%ld, %ld, %ld, %ld)   %ld\n",
                K == N   ? "MHA"
                : K == 1 ? "MQA"
                         : "GQA",
                B, T, N, H, B, T, K, H, B, T, N, H, 2 * K * H * 2);

    // What sharing means: query head n reads key/value head n / (N / K), as if each had been copied N / K times.
    const auto repeated = [&](const std::vector<float>& from) {
      std::vector<float> to;
      for (std::int64_t token = 0; token < B * T; ++token) {
        for (std::int64_t n = 0; n < N; ++n) {
          const auto head = from.begin() + (token * K + n / (N / K)) * H;
          to.insert(to.end(), head, head + H);
        }
      }
      return to;
    };
    const auto all_keys = repeated(key), all_values = repeated(value);
    dhyan::attention(q, dhyan::TensorView(all_keys.data(), {B, T, N, H}), dhyan::TensorView(all_values.data(), {B, T, N, H}),
                     dhyan::TensorView(out_repeated.data(), {B, T, N, H}));
    right = right && largest_difference(out, out_repeated) < 1e-5;
  }
  std::printf("\nsame as with every head copied: %s\n", right ? "yes" : "no");
  return right ? 0 : 1;
}

// SPDX-License-Identifier: Apache-2.0
// Step 11, next steps: three things to vary: the head dimension, the length (in bytes of scratch), the heads of a cache.
#include <cstdio>

#include "common.hpp"

// A problem can be planned without any memory behind it: shapes and types are enough.
dhyan::Plan plan(std::int64_t T, std::int64_t H, dhyan::Implementation implementation) {
  const std::int64_t shape[] = {4, T, 8, H};
  const dhyan::TensorView view(nullptr, dhyan::DType::bf16, shape);
  return dhyan::Plan::forward(
      {.query = view, .key = view, .value = view, .out = view, .options = {.implementation = implementation}});
}

int main() {
  std::printf("Head dimension\n");
  int accepted = 0, refused = 0;
  for (const std::int64_t H : {32, 64, 128, 256, 512, 1024}) {
    try {
      plan(256, H, dhyan::Implementation::fused);
      std::printf("  %5ld: accepted\n", H);
      ++accepted;
    } catch (const dhyan::Error& error) {
      std::printf("  %5ld: %s\n", H, error.what());
      ++refused;
    }
  }

  std::printf("\nScratch bytes, B=4, N=8, H=64, bf16\n%8s %16s %16s\n", "Seq len", "naive", "fused");
  const auto scratch = [](std::int64_t T, dhyan::Implementation implementation) {
    return static_cast<double>(plan(T, 64, implementation).scratch_bytes());
  };
  for (const std::int64_t T : {256, 512, 1024, 2048}) {
    std::printf("%8ld %16.0f %16.0f\n", T, scratch(T, dhyan::Implementation::naive), scratch(T, dhyan::Implementation::fused));
  }
  // Eight times the length: naive needs about 64 times the memory, fused at most eight times.
  const double naive = scratch(2048, dhyan::Implementation::naive) / scratch(256, dhyan::Implementation::naive);
  const double fused = scratch(2048, dhyan::Implementation::fused) / scratch(256, dhyan::Implementation::fused);

  std::printf("\nKey/value cache of a model of 32 layers, H=128, bf16\n%10s %16s %16s\n", "KV heads", "4k tokens",
              "32k tokens");
  for (const std::int64_t K : {8, 2, 1}) {
    const std::int64_t per_token = 2 * 32 * K * 128 * 2;  // keys and values, layers, heads, head dimension, bytes
    std::printf("%10ld %12ld MiB %12ld MiB\n", K, per_token * 4096 >> 20, per_token * 32768 >> 20);
  }
  return accepted == 5 && refused == 1 && naive > 32 && fused <= 8 ? 0 : 1;
}

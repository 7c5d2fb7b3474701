// SPDX-License-Identifier: Apache-2.0
// Step 5, the vendor's kernel: ask for cuDNN by name. Where it cannot run, the answer is a sentence, never another kernel.
#include <cstdio>

#include "common.hpp"

int main() {
  const std::int64_t B = 4, T = 128, N = 8, H = 64;
  const std::int64_t count = B * T * N * H;
  const auto numbers = [&](unsigned seed) { return converted<dhyan::BFloat16>(normal_numbers(count, seed)); };
  const auto query = numbers(1), key = numbers(2), value = numbers(3);  // 16 bits: cuDNN takes no float32
  std::vector<dhyan::BFloat16> fused(query.size()), vendor(query.size());
  const auto view = [&](auto& tensor) { return dhyan::TensorView(tensor.data(), {B, T, N, H}); };

  dhyan::attention(view(query), view(key), view(value), view(fused), {.implementation = dhyan::Implementation::fused});
  try {
    dhyan::attention(view(query), view(key), view(value), view(vendor), {.implementation = dhyan::Implementation::cudnn});
  } catch (const dhyan::Error& error) {
    std::printf("cuDNN fused attention: not available on this device\n  %s\n", error.what());
    // Unsupported means: a good problem, but not here. Anything else would be a mistake of ours.
    return error.status() == dhyan::Status::unsupported ? 0 : 1;
  }
  const double difference = largest_difference(converted<float>(fused), converted<float>(vendor));
  std::printf("max |cudnn - fused|: %.2e\n", difference);
  return difference < 1e-2 ? 0 : 1;
}

// SPDX-License-Identifier: Apache-2.0
// Step 9, the module: settings once, calls many times, and the same bits as the plain call.
#include <cstdio>
#include <cstring>
#include <dhyan/nn.hpp>

#include "common.hpp"

int main() {
  const std::int64_t B = 1, N = 8, H = 64;
  const dhyan::nn::DotProductAttention module(
      {.head_dim = H, .num_attention_heads = N, .num_gqa_groups = N, .attn_mask_type = dhyan::nn::AttnMaskType::causal});

  bool same = true;
  std::printf("%8s %12s %12s   %s\n", "Seq len", "plain ms", "module ms", "Same bits");
  for (const std::int64_t T : {128, 256, 512, 1024}) {
    const auto numbers = [&](unsigned seed) { return converted<dhyan::BFloat16>(normal_numbers(B * T * N * H, seed)); };
    const auto query = numbers(1), key = numbers(2), value = numbers(3);
    std::vector<dhyan::BFloat16> plain(query.size()), out(query.size());
    const auto view = [&](auto& tensor) { return dhyan::TensorView(tensor.data(), {B, T, N, H}); };

    const double plain_ms = median_ms(
        5, [&] { dhyan::attention(view(query), view(key), view(value), view(plain), {.causal = dhyan::Causal::top_left}); });
    const double module_ms = median_ms(5, [&] { module(view(query), view(key), view(value), view(out)); });
    const bool equal = std::memcmp(plain.data(), out.data(), out.size() * sizeof(dhyan::BFloat16)) == 0;
    std::printf("%8ld %12.3f %12.3f   %s\n", T, plain_ms, module_ms, equal ? "yes" : "no");
    same = same && equal;
  }

  // It knows its shapes: a tensor of four heads is refused before anything is computed.
  const auto four_heads = normal_numbers(B * 128 * 4 * H, 1);
  std::vector<float> out(four_heads.size());
  const dhyan::TensorView q(four_heads.data(), {B, 128, 4, H});
  try {
    module(q, q, q, dhyan::TensorView(out.data(), {B, 128, 4, H}));
  } catch (const dhyan::Error& error) {
    std::printf("\nrefused: %s\n", error.what());
    return same ? 0 : 1;
  }
  return 1;
}

// SPDX-License-Identifier: Apache-2.0
#include <dhyan/dhyan.hpp>
#include <vector>

int main() {
  const std::int64_t batch = 2, tokens = 64, heads = 8, head_dim = 32;
  std::vector<float> q(batch * tokens * heads * head_dim, 1), k = q, v = q, out(q.size());
  const auto view = [&](std::vector<float>& x) { return dhyan::TensorView(x.data(), {batch, tokens, heads, head_dim}); };
  dhyan::attention(view(q), view(k), view(v), view(out), {.causal = dhyan::Causal::top_left});
  return out[0] == 1 ? 0 : 1;
}

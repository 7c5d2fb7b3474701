// SPDX-License-Identifier: Apache-2.0
// What happens to a tile of scores between Q K^T and the softmax, and to the weights after it.
#pragma once

#include <cstdint>

#include "core/problem.hpp"
#include "core/sequence.hpp"

namespace dhyan::cpu {

// Where a tile of scores lies. Row r is query t + r / heads of query head n + r % heads: heads > 1 packs a group's heads.
struct Tile {
  const core::Problem& problem;
  const core::Buffers& buffers;
  const core::Sequence& sequence;
  std::int64_t b, n, t, s;
  int heads;
  int rows, columns;
};

// True when logits need more than the visible ranges: softcap, bias, mask or ALiBi.
bool has_logit_terms(const core::Problem& problem);

// Turns scale * Q K^T into logits in place: softcap, bias, ALiBi, then -inf where hidden by mask, causal, window or length.
// `softcap_slope`, when given, receives d logit / d score of the softcap (same stride).
void finish_logits(const Tile& tile, float* scores, std::int64_t stride, float* softcap_slope);

// Multiplies weights by 0 or 1 / (1 - p), as the dropout rule of dhyan.h says.
void apply_dropout(const Tile& tile, float* weights, std::int64_t stride);

// The two for one instruction set; the functions above use the best this process may.
struct LogitKernels {
  void (*finish)(const Tile& tile, float* scores, std::int64_t stride, float* softcap_slope);
  void (*dropout)(const Tile& tile, float* weights, std::int64_t stride);
};
const LogitKernels& logit_kernels_on(std::int64_t highway_targets);

}  // namespace dhyan::cpu

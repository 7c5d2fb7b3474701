// SPDX-License-Identifier: Apache-2.0
// What the backward pass does between its products, row by row; one table of functions per instruction set.
#pragma once

#include <cstdint>

#include "dhyan/dhyan.h"

namespace dhyan::cpu {

// One tile of logits on its way to the operands of dV, dK and dQ. Tiles share `stride` (floats, a multiple of 16) and are
// 64-byte aligned; rows are written up to `columns` rounded up to 16, zeros past the visible columns.
struct ScoreGradient {
  float* scores;       // in: logits, or scores when `factor` is not 1; out: weights after dropout
  float* gradients;    // in: dO V^T; out: gradient of the scores; may be null
  const float* slope;  // d logit / d score, or null
  const float* keep;   // 0 or 1 / (1 - p), or null
  float* logits;       // out: gradient of the logits, not rounded; or null
  std::int64_t stride;
  int rows, columns;
  const float* lse;           // +inf: the row has no weights
  const float* delta;         // rowsum(dO * out) - grad_lse
  const std::int32_t* begin;  // visible columns of each row
  const std::int32_t* end;
  float factor;          // logits = scores * factor
  dhyan_dtype rounding;  // what weights and gradients are rounded to; f32: left as they are
};

struct BackwardRows {
  void (*score_gradient)(const ScoreGradient& tile);
  // Sum of a[i] * b[i] over n elements of dtype.
  float (*dot)(const void* a, const void* b, dhyan_dtype dtype, std::int64_t n);
  float (*sum)(const float* from, std::int64_t n);
  // to[i] = (initial ? initial[i] : 0) + from[i].
  void (*add)(const float* initial, const float* from, float* to, std::int64_t n);
  // to[i] = from[i] * factor, rounded once to dtype.
  void (*write)(const float* from, float factor, void* to, dhyan_dtype dtype, std::int64_t n);
};

// For the best instruction set this process may use, and for the best of these HWY_* bits.
const BackwardRows& backward_rows();
const BackwardRows& backward_rows_on(std::int64_t highway_targets);

}  // namespace dhyan::cpu

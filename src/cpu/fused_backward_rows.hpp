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

// `rows` rows of `n` elements; strides in elements.
struct BackwardRows {
  void (*score_gradient)(const ScoreGradient& tile);
  // sums[r] = sum over i of a[r][i] * b[r][i], both of dtype.
  void (*dot)(const void* a, std::int64_t a_stride, const void* b, std::int64_t b_stride, dhyan_dtype dtype, std::int64_t rows,
              std::int64_t n, float* sums);
  float (*sum)(const float* from, std::int64_t n);
  // to = from, or += with accumulate.
  void (*add)(const float* from, std::int64_t stride, float* to, std::int64_t to_stride, std::int64_t rows, std::int64_t n,
              bool accumulate);
  // The same for sums whose upper halves lie in one place and lower halves in another.
  void (*add_halves)(const float* from, std::int64_t stride, std::uint16_t* upper, std::int64_t upper_stride,
                     std::uint16_t* lower, std::int64_t lower_stride, std::int64_t rows, std::int64_t n, bool accumulate);
  // The last addition: upper = (sum + from) * factor, rounded once to dtype.
  void (*finish_halves)(const float* from, std::int64_t stride, float factor, std::uint16_t* upper, std::int64_t upper_stride,
                        const std::uint16_t* lower, std::int64_t lower_stride, dhyan_dtype dtype, std::int64_t rows,
                        std::int64_t n);
  // to = from * factor, rounded once to dtype.
  void (*write)(const float* from, std::int64_t stride, float factor, void* to, std::int64_t to_stride, dhyan_dtype dtype,
                std::int64_t rows, std::int64_t n);
};

// For the best instruction set this process may use, and for the best of these HWY_* bits.
const BackwardRows& backward_rows();
const BackwardRows& backward_rows_on(std::int64_t highway_targets);

}  // namespace dhyan::cpu

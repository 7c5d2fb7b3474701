// SPDX-License-Identifier: Apache-2.0
// The row work of online softmax: from a tile of logits to weights, and from sums of weighted values to outputs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dhyan/dhyan.h"

namespace dhyan::cpu {

// What weights are rounded to before they meet the values, and where they then lie.
enum class WeightForm {
  f32,       // in place, as they are
  f32_f16,   // in place, f32 numbers that an f16 holds
  f32_bf16,  // in place, f32 numbers that a bf16 holds
  bf16,      // bf16 in their own memory, for engines of bf16 operands; on AVX3 the processor must have AVX-512 BF16
};

struct WeightRows {
  float* rows;          // logits in, weights out; memory up to the next multiple of 16 columns is the kernel's too
  std::int64_t stride;  // a multiple of 16
  int count, columns;
  WeightForm form;
  std::uint16_t* packed;       // form bf16: the weights, rows
  std::int64_t packed_stride;  // packed_stride apart, a multiple of 16
};

struct SoftmaxKernels {
  // weights = exp2(factor * (logit - highest)), factor > 0; a row without any finite logit gets zeros. `highest` and `sum` of
  // each row carry over from tile to tile (-inf and 0 before the first); `rescale` receives what earlier sums and weighted
  // values are to be multiplied by. The sum takes weights before they are rounded.
  void (*tile)(const WeightRows& rows, float factor, float* highest, float* sum, float* rescale);
  // Only the last step of `tile`, for weights that changed since.
  void (*round)(const WeightRows& rows);
  // rows[r] *= factors[r], or the same factor for all.
  void (*rescale)(float* rows, std::int64_t stride, int count, int columns, const float* factors);
  void (*scale)(float* rows, std::int64_t stride, int count, int columns, float factor);
  // out = row * factor, rounded to nearest even once.
  void (*write)(const float* row, float factor, int columns, dhyan_dtype dtype, void* out);
};

// log of the sum of exponentials of a row, from what `tile` left of it; -inf without a finite logit.
double softmax_lse(float highest, float sum, float factor);

// What a sum taken with `before` as the highest logit is multiplied by when `now` is.
float softmax_rescale(float before, float now, float factor);

// log(e^a + e^b)
double add_exponentials(double a, double b);

const SoftmaxKernels& softmax_kernels_on(std::int64_t highway_targets);

}  // namespace dhyan::cpu

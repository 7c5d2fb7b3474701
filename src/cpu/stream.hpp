// SPDX-License-Identifier: Apache-2.0
// Products of a few query rows with keys and values read once, as they lie in memory: for decoding, where packing would cost
// more than it saves.
#pragma once

#include <cstdint>

#include "cpu/engine.hpp"

namespace dhyan::cpu {

// A call takes at most kStreamRows queries and kStreamKeys keys, dims up to 512.
inline constexpr int kStreamRows = 8;
inline constexpr int kStreamKeys = 16;

struct StreamKernels {
  const char* name;
  dhyan_dtype operand;  // f32; or bf16, when all of query, weights and source must be numbers that a bf16 holds
  // scores[r][s] = query[r] . key(s) for `rows` queries and `count` keys. Queries are f32 with zeros up to the next multiple of
  // 16 elements, `query_stride` apart, 64-byte aligned.
  void (*scores)(const float* query, std::int64_t query_stride, int rows, const Source& key, int count, int dim, float* scores,
                 std::int64_t stride);
  // sums[r] += sum over s of weights[r][s] * value(s); sums are `sum_stride` apart, 64-byte aligned, room up to a multiple
  // of 16.
  void (*values)(const float* weights, std::int64_t stride, int rows, const Source& value, int count, int dim, float* sums,
                 std::int64_t sum_stride);
  // out[0, padded) = row `row` of the source times its factor, zeros past `count`.
  void (*widen)(const Source& source, std::int64_t row, int count, int padded, float* out);
  // sums += factor * more, `count` a multiple of 16.
  void (*add)(const float* more, float factor, int count, float* sums);
};

const StreamKernels& stream_kernels_on(std::int64_t highway_targets);
// bf16 keys and values by VDPBF16PS; nullptr where the processor lacks it.
const StreamKernels* bf16_dot_stream_kernels();

}  // namespace dhyan::cpu

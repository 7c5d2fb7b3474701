// SPDX-License-Identifier: Apache-2.0
// What lies around the two products of naive attention, each one kernel.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/problem.hpp"

namespace dhyan::cuda::naive {

// to[b][head][row][padded] = factor * rows of one side; 0 where a row belongs to no sequence and past `width`.
struct Gather {
  bool queries;  // whose sequences the rows follow
  core::Operand operand;
  const void* data;
  std::int64_t heads, rows, width, padded;
  double factor;  // exact in the operand's type
  void* to;
};
void gather(const core::Problem& p, const core::Buffers& buffers, const Gather& g, cudaStream_t stream);

// Scores [b][n][t][stride], f32 (f64 for f64 inputs), become weights of the inputs' type from the same row's first byte on,
// after softcap, bias, ALiBi, masks, sink, softmax and dropout; columns [0, S) are written, 0 where a key or the query belongs
// to no sequence. Writes lse (dense: every row's).
void softmax(const core::Problem& p, const core::Buffers& buffers, void* scores, std::int64_t stride, cudaStream_t stream);

// out rows from[b][n][t][padded]; 0 for rows past a dense query length.
void scatter(const core::Problem& p, const core::Buffers& buffers, const void* from, std::int64_t padded, cudaStream_t stream);

// Packed: every row of out becomes 0 and lse -inf, before those that sequences hold are written.
void blank(const core::Problem& p, const core::Buffers& buffers, cudaStream_t stream);

// Loads the kernels of this dtype, so that a captured run loads nothing.
void load(dhyan_dtype dtype);

}  // namespace dhyan::cuda::naive

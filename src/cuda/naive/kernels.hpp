// SPDX-License-Identifier: Apache-2.0
// What lies around the products of naive attention, each one kernel. Matrices of scores are [b][n][t][stride], f32 (f64 for f64
// inputs).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/problem.hpp"

namespace dhyan::cuda::naive {

// A tensor of rows (query, key, value, out and their gradients) and its dense copy [b][head][row][padded].
struct Rows {
  bool queries;  // whose sequences the rows follow
  core::Operand operand;
  std::int64_t heads, rows, width, padded;
};

// to = factor * rows; 0 where a row belongs to no sequence and past `width`. The factor is exact in the operand's type.
void gather(const core::Problem& p, const core::Buffers& buffers, const Rows& rows, const void* from, double factor, void* to,
            cudaStream_t stream);

// The tensor's rows from the copy; 0 for those that belong to no sequence. `from` NULL: everything becomes 0.
void scatter(const core::Problem& p, const core::Buffers& buffers, const Rows& rows, const void* from, void* to,
             cudaStream_t stream);

// Scores become weights of the inputs' type from the same row's first byte on, after softcap, bias, ALiBi, masks, sink, softmax
// and dropout; columns [0, S) are written, 0 where a key or the query belongs to no sequence. Writes lse, every row's.
void softmax(const core::Problem& p, const core::Buffers& buffers, void* scores, std::int64_t stride, cudaStream_t stream);

// delta[b][n][t] = sum of grad_out * out - grad_lse; 0 for blank rows.
void delta(const core::Problem& p, const core::Buffers& buffers, void* delta, cudaStream_t stream);

// The matrices of a backward pass.
struct Matrices {
  void* scores;     // Q K^T scale
  void* gradients;  // dO V^T; NULL: only weights are asked for
  std::int64_t stride;
  const void* delta;
};

// Each row of both becomes, in the inputs' type and from its first byte on: scores the weights after dropout, gradients those
// of the scores (scale aside). Columns [0, S) are written. With `bias`, grad_bias has an element for every score and is
// written.
void gradient(const core::Problem& p, const core::Buffers& buffers, const Matrices& m, bool bias, cudaStream_t stream);

// How the sums of a bias that broadcasts are cut: elements * chunks partial sums, each by so many lanes.
struct BiasSums {
  explicit BiasSums(const core::Problem& p);
  std::int64_t elements, terms;  // terms of one element
  std::int64_t chunks;
  int lanes;
  std::int64_t partial() const;  // how many partial sums, in f64, are kept; 0 with one chunk
};
// grad_bias from the matrices before `gradient` changes them.
void sum_bias(const core::Problem& p, const core::Buffers& buffers, const Matrices& m, const BiasSums& sums, double* partial,
              cudaStream_t stream);

void sum_sink(const core::Problem& p, const core::Buffers& buffers, const void* delta, cudaStream_t stream);

// Load the kernels that a problem needs, so that a captured run loads nothing.
void load(const core::Problem& p);
void load_backward(const core::Problem& p);

}  // namespace dhyan::cuda::naive

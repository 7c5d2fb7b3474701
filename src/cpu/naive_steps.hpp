// SPDX-License-Identifier: Apache-2.0
// The steps of naive attention on one block: products with a matrix of weights in memory, and what happens to its rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/problem.hpp"
#include "core/sequence.hpp"

namespace dhyan::cpu::naive {

constexpr int kRowBlock = 192;
constexpr int kKeyBlock = 256;

// Rows of one head of a tensor.
struct Rows {
  const void* data;
  dhyan_dtype dtype;
  std::int64_t stride;
};

// Queries [t, t + rows) of one head; their scores lie in `rows` rows of all the sequence's keys.
struct Block {
  const core::Problem& problem;
  const core::Buffers& buffers;
  const core::Sequence& sequence;
  std::int64_t b, n, t;
  int rows;
};

// What one thread works in.
struct Storage {
  void* right;    // an operand of kKeyBlock rows, packed
  void* left;     // likewise, or of kRowBlock rows
  void* rows[2];  // a row of scores each
};

// Columns are padded to a multiple of 16, which is every matrix's stride too; matrices and storage are 64-byte aligned.
template <class Real>
struct Steps {
  // Bytes of the members of Storage, multiples of 64.
  std::size_t (*right_bytes)(const core::Problem& problem);
  std::size_t (*left_bytes)(const core::Problem& problem);

  // C[m][n] = factor * A[m][k] B[n][k]^T.
  void (*rows_by_rows)(const Rows& a, double factor, const Rows& b, int m, int n, int k, Real* c, std::int64_t stride,
                       const Storage& storage);
  // C[m][n] = W[m][k] B[k][n].
  void (*weights_by_rows)(const Real* weights, std::int64_t weights_stride, const Rows& b, int m, int n, int k, Real* c,
                          std::int64_t stride, const Storage& storage);
  // C[m][n] += W[k][m]^T B[k][n], m at most kKeyBlock.
  void (*weights_transposed_by_rows)(const Real* weights, std::int64_t weights_stride, const Rows& b, int m, int n, int k,
                                     Real* c, std::int64_t stride, const Storage& storage);

  // Scores in; weights out, after dropout, rounded to the inputs' type; lse of each row.
  void (*softmax)(const Block& block, Real* scores, std::int64_t stride, Real* lse);
  // Scores and dO V^T in; weights after dropout and gradients of the scores out, both rounded to the inputs' type. `logits`,
  // when given, receives the gradients of the logits, not rounded. A row with lse = -inf becomes zeros.
  void (*gradient)(const Block& block, Real* scores, Real* gradients, Real* logits, std::int64_t stride, const Real* lse,
                   const Real* delta, const Storage& storage);

  // out = row * factor, rounded once to dtype.
  void (*write)(const Real* row, double factor, int columns, dhyan_dtype dtype, void* out);
};

extern const Steps<float> float_steps;
extern const Steps<double> double_steps;

}  // namespace dhyan::cpu::naive

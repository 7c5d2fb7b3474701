// SPDX-License-Identifier: Apache-2.0
// Reading tensors as float64, and what one query's logits are.
#pragma once

#include <cstdint>
#include <vector>

#include "core/convert.hpp"
#include "core/problem.hpp"
#include "core/sequence.hpp"

namespace dhyan::reference {

constexpr double negative_infinity = -__builtin_huge_val();

// Element 0 of a row of query, key, value, out or a gradient of theirs.
inline std::int64_t row_offset(const core::Operand& x, std::int64_t b, std::int64_t token, std::int64_t head) {
  return b * x.strides[0] + token * x.strides[1] + head * x.strides[2];
}

// The number of (b, head, token) in lse or its gradient.
inline std::int64_t lse_offset(const core::Operand& x, std::int64_t b, std::int64_t head, std::int64_t token) {
  return b * x.strides[0] + head * x.strides[1] + token * x.strides[2];
}

// `count` rows of one head from `first` on, one after the other.
std::vector<double> read_rows(const core::Operand& x, const void* data, std::int64_t b, std::int64_t first, std::int64_t count,
                              std::int64_t head, std::int64_t width);

// Rounds one row to the tensor's type: the only place where the reference rounds.
void write_row(const core::Operand& x, void* data, std::int64_t b, std::int64_t token, std::int64_t head, std::int64_t width,
               const double* row);

// Blanks the rows of a tensor like query (or, with queries false, like key) that belong to no sequence.
void blank_uncovered(const core::Problem& problem, const core::Buffers& buffers, bool queries, const core::Operand& x,
                     void* data, std::int64_t heads, std::int64_t width);

double dot(const double* a, const double* b, std::int64_t n);

// One query: entry b, head n, position t inside its sequence.
struct Query {
  const core::Problem& problem;
  const core::Buffers& buffers;
  const core::Sequence& sequence;
  std::int64_t b, n, t;
};

// Whether the query sees key s of its sequence: causal, window and mask.
bool visible(const Query& q, std::int64_t s);

struct Logit {
  double value;
  double softcap_slope;  // d value / d (scale * q . k)
};

// softcap(score) + bias - slope * |s - (t + d)|, where score is scale * q . k.
Logit logit(const Query& q, std::int64_t s, double score);

// What dropout multiplies the weight of key s by.
double dropout_factor(const Query& q, std::int64_t s);

}  // namespace dhyan::reference

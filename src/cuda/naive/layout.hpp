// SPDX-License-Identifier: Apache-2.0
// How naive attention lays out its matrices and its copies of rows.
#pragma once

#include <cstdint>

#include "core/problem.hpp"
#include "cuda/naive/kernels.hpp"
#include "cuda/naive/products.hpp"

namespace dhyan::cuda::naive {

std::int64_t element_bytes(dhyan_dtype dtype);

// Of scores, statistics and sums: f32, f64 for f64 inputs.
dhyan_dtype score_type(const core::Problem& p);

// From one row of scores to the next, in scores, and in elements of the inputs' type, which overwrite them.
std::int64_t score_stride(const core::Problem& p);
std::int64_t weight_stride(const core::Problem& p);

// The width of a row in a copy.
std::int64_t padded(const core::Problem& p, std::int64_t width);

// Whether cuBLASLt can read rows of keys or values where they lie. Rows past a length may hold anything: `clean` when that may
// not be.
bool in_place(const core::Problem& p, const core::Operand& x, std::int64_t width, bool clean);

// No score and no row: there is nothing to multiply.
bool any_score(const core::Problem& p);

// The rows of a tensor like these.
Rows query_rows(const core::Problem& p, const core::Operand& x);
Rows key_rows(const core::Problem& p, const core::Operand& x);
Rows value_rows(const core::Problem& p, const core::Operand& x);
Rows out_rows(const core::Problem& p, const core::Operand& x);

// Rows that share a key head; its products see them as one matrix.
std::int64_t group_rows(const core::Problem& p);

// Copies: one entry of so many elements per (batch, key head). A tensor's own rows lie where its strides say.
Side dense(const core::Problem& p, std::int64_t elements);
Side there(const core::Operand& x);

// Scores, or anything of their shape: [group rows][width] times key or value rows, transposed.
Products rows_by_rows(const core::Problem& p, std::int64_t width, const core::Operand& right, bool copied);
// [group rows][S] of the inputs' type, as `weight_stride` lays it out, times key or value rows.
Products weights_by_rows(const core::Problem& p, std::int64_t width, const core::Operand& right, bool copied);
// The same matrix transposed times copied rows of queries.
Products weights_transposed_by_rows(const core::Problem& p, std::int64_t width);

// Bytes of one matrix of scores, and of copies of so wide rows of queries and of keys: at most that much, a double since the
// number may be any.
double matrix_bytes(const core::Problem& p);
double copy_bytes(const core::Problem& p, std::int64_t query_widths, std::int64_t key_widths);

// Deals out scratch.
class Pieces {
 public:
  std::int64_t take(std::int64_t elements, dhyan_dtype dtype);
  std::int64_t bytes() const { return bytes_; }

 private:
  std::int64_t bytes_ = 0;
};

void clear(void* data, std::int64_t bytes, cudaStream_t stream);

}  // namespace dhyan::cuda::naive

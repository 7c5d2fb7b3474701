// SPDX-License-Identifier: Apache-2.0
#include "cuda/naive/layout.hpp"

#include <algorithm>

#include "core/convert.hpp"
#include "cuda/device.hpp"
#include "cuda/runtime/error.hpp"

namespace dhyan::cuda::naive {
namespace {

constexpr std::int64_t kRowBytes = 16;      // of every operand of a product
constexpr std::int64_t kScoreColumns = 16;  // columns of a row of scores are a multiple

std::int64_t round_up(std::int64_t x, std::int64_t multiple) { return (x + multiple - 1) / multiple * multiple; }

bool tf32(const core::Problem& p) { return p.precision == DHYAN_PRECISION_TF32; }

}  // namespace

std::int64_t element_bytes(dhyan_dtype dtype) { return static_cast<std::int64_t>(core::size_of(dtype)); }

dhyan_dtype score_type(const core::Problem& p) { return p.dtype == DHYAN_F64 ? DHYAN_F64 : DHYAN_F32; }

std::int64_t score_stride(const core::Problem& p) { return round_up(p.key_length, kScoreColumns); }

std::int64_t weight_stride(const core::Problem& p) {
  return score_stride(p) * element_bytes(score_type(p)) / element_bytes(p.dtype);
}

std::int64_t padded(const core::Problem& p, std::int64_t width) { return round_up(width, kRowBytes / element_bytes(p.dtype)); }

bool in_place(const core::Problem& p, const core::Operand& x, std::int64_t width, bool clean) {
  const std::int64_t element = element_bytes(p.dtype);
  const auto aligned = [&](std::int64_t stride) { return stride * element % kRowBytes == 0; };
  return !p.packed && !(clean && p.key_lengths.present()) && width == padded(p, width) && x.alignment >= kRowBytes &&
         aligned(x.strides[0]) && aligned(x.strides[1]) && aligned(x.strides[2]) && x.strides[1] >= width;
}

bool any_score(const core::Problem& p) { return p.batch > 0 && p.query_heads > 0 && p.query_length > 0 && p.key_length > 0; }

Rows query_rows(const core::Problem& p, const core::Operand& x) {
  return {true, x, p.query_heads, p.query_length, p.head_dim, padded(p, p.head_dim)};
}
Rows key_rows(const core::Problem& p, const core::Operand& x) {
  return {false, x, p.key_heads, p.key_length, p.head_dim, padded(p, p.head_dim)};
}
Rows value_rows(const core::Problem& p, const core::Operand& x) {
  return {false, x, p.key_heads, p.key_length, p.value_head_dim, padded(p, p.value_head_dim)};
}
Rows out_rows(const core::Problem& p, const core::Operand& x) {
  return {true, x, p.query_heads, p.query_length, p.value_head_dim, padded(p, p.value_head_dim)};
}

std::int64_t group_rows(const core::Problem& p) { return p.group() * p.query_length; }

Side dense(const core::Problem& p, std::int64_t elements) { return {elements * p.key_heads, elements}; }
Side there(const core::Operand& x) { return {x.strides[0], x.strides[2]}; }

Products rows_by_rows(const core::Problem& p, std::int64_t width, const core::Operand& right, bool copied) {
  const std::int64_t rows = group_rows(p);
  const MatmulShape shape{.right_transposed = true,
                          .input = p.dtype,
                          .output = score_type(p),
                          .tf32 = tf32(p),
                          .rows = rows,
                          .columns = p.key_length,
                          .depth = width,
                          .left_stride = width,
                          .right_stride = copied ? width : right.strides[1],
                          .result_stride = score_stride(p)};
  return {shape, p, dense(p, rows * width), copied ? dense(p, p.key_length * width) : there(right),
          dense(p, rows * score_stride(p))};
}

Products weights_by_rows(const core::Problem& p, std::int64_t width, const core::Operand& right, bool copied) {
  const std::int64_t rows = group_rows(p);
  const MatmulShape shape{.input = p.dtype,
                          .output = p.dtype,
                          .tf32 = tf32(p),
                          .rows = rows,
                          .columns = width,
                          .depth = p.key_length,
                          .left_stride = weight_stride(p),
                          .right_stride = copied ? width : right.strides[1],
                          .result_stride = width};
  return {shape, p, dense(p, rows * weight_stride(p)), copied ? dense(p, p.key_length * width) : there(right),
          dense(p, rows * width)};
}

Products weights_transposed_by_rows(const core::Problem& p, std::int64_t width) {
  const std::int64_t rows = group_rows(p);
  const MatmulShape shape{.left_transposed = true,
                          .input = p.dtype,
                          .output = p.dtype,
                          .tf32 = tf32(p),
                          .rows = p.key_length,
                          .columns = width,
                          .depth = rows,
                          .left_stride = weight_stride(p),
                          .right_stride = width,
                          .result_stride = width};
  return {shape, p, dense(p, rows * weight_stride(p)), dense(p, rows * width), dense(p, p.key_length * width)};
}

double matrix_bytes(const core::Problem& p) {
  return static_cast<double>(element_bytes(score_type(p))) * static_cast<double>(p.batch) * static_cast<double>(p.query_heads) *
         static_cast<double>(p.query_length) * static_cast<double>(score_stride(p));
}

double copy_bytes(const core::Problem& p, std::int64_t query_widths, std::int64_t key_widths) {
  const double elements =
      static_cast<double>(p.query_heads) * static_cast<double>(p.query_length) * static_cast<double>(query_widths) +
      static_cast<double>(p.key_heads) * static_cast<double>(p.key_length) * static_cast<double>(key_widths);
  return static_cast<double>(element_bytes(p.dtype)) * static_cast<double>(p.batch) * elements;
}

std::int64_t Pieces::take(std::int64_t elements, dhyan_dtype dtype) {
  const std::int64_t at = bytes_;
  bytes_ += round_up(elements * element_bytes(dtype), static_cast<std::int64_t>(kScratchAlignment));
  return at;
}

void clear(void* data, std::int64_t bytes, cudaStream_t stream) {
  if (bytes > 0) check(cudaMemsetAsync(data, 0, static_cast<std::size_t>(bytes), stream), "clearing scratch");
}

}  // namespace dhyan::cuda::naive

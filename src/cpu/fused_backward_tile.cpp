// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "cpu/fused_backward.hpp"
#include "cpu/logits.hpp"

namespace dhyan::cpu {

SharedScratch::SharedScratch(const BackwardPlan& plan, Carver& carver) {
  const auto rows = static_cast<std::size_t>(plan.query_rows());
  const core::Problem& p = plan.problem;
  lse = carver.take<float>(rows);
  delta = carver.take<float>(rows);
  query_halves = carver.take<std::uint16_t>(plan.split_query_sums ? rows * static_cast<std::size_t>(p.head_dim) : 0);
  passed = carver.take<std::int64_t>(plan.query ? static_cast<std::size_t>(p.batch * p.key_heads * plan.chunks) : 0);
  bias_partials = carver.take<float>(static_cast<std::size_t>(bias_partial_floats(plan)));
}

BackwardTile::BackwardTile(const BackwardPlan& plan, const SharedScratch& shared, bool bias_pass, Carver& carver)
    : plan_(plan),
      shared_(shared),
      gradients_wanted_(bias_pass || plan.score_gradients()),
      key_operand_(!bias_pass && plan.query) {
  const core::Problem& p = plan.problem;
  const Engine& engine = *plan.engine;
  const int rows = plan.query_block, columns = plan.key_chunk, piece = plan.key_piece;
  const auto pieces = static_cast<std::size_t>(ceil_div(columns, piece));
  const int head_dim = static_cast<int>(p.head_dim), value_head_dim = static_cast<int>(p.value_head_dim);
  // Rows a multiple of 1 KiB apart would fall into few sets of the first-level cache.
  stride_ = round_up(columns, 16) + 16;

  const auto aligned = [](std::size_t bytes) { return (bytes + 63) / 64 * 64; };
  key_bytes_ = aligned(engine.right_bytes(head_dim, piece));
  value_bytes_ = aligned(engine.right_bytes(value_head_dim, piece));
  key_rows_bytes_ = aligned(engine.right_bytes(piece, head_dim));
  keys_transposed_ = carver.take<std::byte>(pieces * key_bytes_);
  values_transposed_ = carver.take<std::byte>(gradients_wanted_ ? pieces * value_bytes_ : 0);
  keys_ = carver.take<std::byte>(key_operand_ ? pieces * key_rows_bytes_ : 0);
  left_ = carver.take<std::byte>(std::max(engine.left_bytes(rows, head_dim), engine.left_bytes(rows, value_head_dim)));
  right_ = carver.take<std::byte>(std::max(engine.right_bytes(rows, head_dim), engine.right_bytes(rows, value_head_dim)));
  tile_left_ = carver.take<std::byte>(std::max(engine.left_bytes(columns, rows), engine.left_bytes(rows, columns)));

  const auto tile = static_cast<std::size_t>(rows * stride_);
  scores_ = carver.take<float>(tile);
  gradients_ = gradients_wanted_ ? carver.take<float>(tile) : nullptr;
  slope_ = gradients_wanted_ && p.softcap > 0 ? carver.take<float>(tile) : nullptr;
  keep_ = p.has_dropout() ? carver.take<float>(tile) : nullptr;
  logits_ = bias_pass || plan.bias_in_tiles ? carver.take<float>(tile) : nullptr;
  begin_ = carver.take<std::int32_t>(static_cast<std::size_t>(rows));
  end_ = carver.take<std::int32_t>(static_cast<std::size_t>(rows));
}

void BackwardTile::pack_keys(const core::Buffers& buffers, const core::Sequence& sequence, std::int64_t b, std::int64_t head,
                             std::int64_t s, int columns) {
  const core::Problem& p = plan_.problem;
  const Engine& engine = *plan_.engine;
  const int head_dim = static_cast<int>(p.head_dim), value_head_dim = static_cast<int>(p.value_head_dim);
  s_ = s;
  columns_ = columns;
  for (int i = 0; i * plan_.key_piece < columns; ++i) {
    const int count = piece_columns(i);
    const std::int64_t token = sequence.key_begin + s + i * plan_.key_piece;
    const Source keys = source_of(p.key, buffers.key, b, token, head, plan_.packed_factor);
    engine.right_transposed(keys, head_dim, count, piece(keys_transposed_, key_bytes_, i));
    if (gradients_wanted_)
      engine.right_transposed(source_of(p.value, buffers.value, b, token, head), value_head_dim, count,
                              piece(values_transposed_, value_bytes_, i));
    if (key_operand_) engine.right(keys, count, head_dim, piece(keys_, key_rows_bytes_, i));
  }
}

// Finds the columns that each query sees, and the pieces that any does.
bool BackwardTile::see(const core::Sequence& sequence) {
  int least = columns_, most = 0;
  for (int r = 0; r < rows_; ++r) {
    const core::KeyRange range = core::visible_keys(plan_.problem, sequence, t_ + r);
    begin_[r] = static_cast<std::int32_t>(std::clamp<std::int64_t>(range.begin - s_, 0, columns_));
    end_[r] = static_cast<std::int32_t>(std::clamp<std::int64_t>(range.end - s_, 0, columns_));
    if (begin_[r] >= end_[r]) continue;
    least = std::min(least, begin_[r]);
    most = std::max(most, end_[r]);
  }
  if (least >= most) return false;
  first_ = least / plan_.key_piece * plan_.key_piece;
  last_ = std::min(columns_, static_cast<int>(round_up(most, plan_.key_piece)));
  for (int r = 0; r < rows_; ++r) {
    begin_[r] -= first_;
    end_[r] -= first_;
  }
  return true;
}

bool BackwardTile::compute(const core::Buffers& buffers, const core::Sequence& sequence, std::int64_t b, std::int64_t n,
                           std::int64_t t, int rows) {
  const core::Problem& p = plan_.problem;
  const Engine& engine = *plan_.engine;
  const int head_dim = static_cast<int>(p.head_dim), value_head_dim = static_cast<int>(p.value_head_dim);
  b_ = b, n_ = n, t_ = t, rows_ = rows;
  if (!see(sequence)) return false;

  const std::int64_t token = sequence.query_begin + t;
  const int first_piece = first_ / plan_.key_piece;
  const int last_piece = static_cast<int>(ceil_div(last_, plan_.key_piece));
  const Left queries = engine.left(source_of(p.query, buffers.query, b, token, n), rows, head_dim, left_);
  for (int i = first_piece; i < last_piece; ++i)
    engine.multiply(queries, piece(keys_transposed_, key_bytes_, i), scores_ + i * plan_.key_piece, stride_, rows,
                    piece_columns(i), head_dim, false);
  if (gradients_wanted_) {
    const Left grad_out = engine.left(source_of(p.grad_out, buffers.grad_out, b, token, n), rows, value_head_dim, left_);
    for (int i = first_piece; i < last_piece; ++i)
      engine.multiply(grad_out, piece(values_transposed_, value_bytes_, i), gradients_ + i * plan_.key_piece, stride_, rows,
                      piece_columns(i), value_head_dim, false);
  }

  const int columns = last_ - first_;
  const Tile place = {p, buffers, sequence, b, n, t, s_ + first_, 1, rows, columns};
  float factor = plan_.late_factor;
  if (has_logit_terms(p)) {
    if (factor != 1) {
      plan_.rows->write(scores_ + first_, stride_, factor, scores_ + first_, stride_, DHYAN_F32, rows, columns);
      factor = 1;
    }
    finish_logits(place, scores_ + first_, stride_, slope_ ? slope_ + first_ : nullptr);
  }
  if (keep_) {
    for (int r = 0; r < rows; ++r) std::fill_n(keep_ + first_ + r * stride_, round_up(columns, 16), 1.0f);
    apply_dropout(place, keep_ + first_, stride_);
  }
  const std::int64_t row = plan_.first_row(b, n, sequence) + t;
  plan_.rows->score_gradient({.scores = scores_ + first_,
                              .gradients = gradients_ ? gradients_ + first_ : nullptr,
                              .slope = slope_ ? slope_ + first_ : nullptr,
                              .keep = keep_ ? keep_ + first_ : nullptr,
                              .logits = logits_ ? logits_ + first_ : nullptr,
                              .stride = stride_,
                              .rows = rows,
                              .columns = columns,
                              .lse = shared_.lse + row,
                              .delta = shared_.delta + row,
                              .begin = begin_,
                              .end = end_,
                              .factor = factor,
                              .rounding = plan_.rounding});
  return true;
}

void BackwardTile::add_value_gradient(const core::Buffers& buffers, const core::Sequence& sequence, float* sums,
                                      std::int64_t stride) {
  const core::Problem& p = plan_.problem;
  const Engine& engine = *plan_.engine;
  const int value_head_dim = static_cast<int>(p.value_head_dim);
  engine.right(source_of(p.grad_out, buffers.grad_out, b_, sequence.query_begin + t_, n_), rows_, value_head_dim, right_);
  const Left weights = engine.left_transposed({scores_ + first_, DHYAN_F32, stride_}, last_ - first_, rows_, tile_left_);
  engine.multiply(weights, right_, sums + first_ * stride, stride, last_ - first_, value_head_dim, rows_, true);
}

void BackwardTile::add_key_gradient(const core::Buffers& buffers, const core::Sequence& sequence, float* sums,
                                    std::int64_t stride) {
  const core::Problem& p = plan_.problem;
  const Engine& engine = *plan_.engine;
  const int head_dim = static_cast<int>(p.head_dim);
  engine.right(source_of(p.query, buffers.query, b_, sequence.query_begin + t_, n_, plan_.packed_factor), rows_, head_dim,
               right_);
  const Left gradients = engine.left_transposed({gradients_ + first_, DHYAN_F32, stride_}, last_ - first_, rows_, tile_left_);
  engine.multiply(gradients, right_, sums + first_ * stride, stride, last_ - first_, head_dim, rows_, true);
}

void BackwardTile::query_gradient(float* to, std::int64_t stride) {
  const Engine& engine = *plan_.engine;
  const int head_dim = static_cast<int>(plan_.problem.head_dim);
  const int first_piece = first_ / plan_.key_piece;
  for (int i = first_piece; i * plan_.key_piece < last_; ++i) {
    const int count = piece_columns(i);
    const Left gradients = engine.left({gradients_ + i * plan_.key_piece, DHYAN_F32, stride_}, rows_, count, tile_left_);
    engine.multiply(gradients, piece(keys_, key_rows_bytes_, i), to, stride, rows_, head_dim, count, i > first_piece);
  }
}

}  // namespace dhyan::cpu

// SPDX-License-Identifier: Apache-2.0
// The parts of the fused backward pass: what a plan fixes, the tile both passes share, and the passes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/convert.hpp"
#include "core/problem.hpp"
#include "core/sequence.hpp"
#include "cpu/engine.hpp"
#include "cpu/fused_backward_rows.hpp"
#include "cpu/sizes.hpp"

namespace dhyan::cpu {

// Hands out consecutive 64-byte aligned parts of a block of scratch; with a null base it only measures.
class Carver {
 public:
  explicit Carver(void* base) : base_(static_cast<std::byte*>(base)) {}
  template <class T>
  T* take(std::size_t count) {
    void* part = base_ ? base_ + used_ : nullptr;
    used_ += (count * sizeof(T) + 63) / 64 * 64;
    return static_cast<T*>(part);
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* base_;
  std::size_t used_ = 0;
};

// Everything that the problem alone decides.
struct BackwardPlan {
  core::Problem problem;
  const Engine* engine = nullptr;
  const BackwardRows* rows = nullptr;

  int query_block = 0;  // rows of a tile
  int key_chunk = 0;    // keys of a unit of work, and columns of a tile
  int key_piece = 0;    // keys packed together: what a tile skips, it skips by pieces
  std::int64_t chunks = 0;

  // scale = packed_factor * late_factor. K, and for dK Q, is multiplied by the first as it is packed, so that no product
  // overflows before it is scaled; the second, not 1 where scale is above 1 or packing rounds to bf16, is left for f32 sums.
  float packed_factor = 1;
  float late_factor = 1;
  dhyan_dtype rounding = DHYAN_F32;  // of weights and score gradients, where the engine does not round anyway

  bool query = false, key = false, value = false;  // which gradients are asked for
  bool bias_in_tiles = false;                      // dBias has an element for every (b, n, t, s)
  bool bias_by_sums = false;                       // it has not
  bool sink = false;
  bool split_query_sums = false;  // dQ is 16-bit and summed over several chunks

  bool tiles() const { return query || key || value || bias_in_tiles; }
  bool score_gradients() const { return query || key || bias_in_tiles; }
  std::int64_t group() const { return problem.key_heads == 0 ? 0 : problem.group(); }
  std::int64_t query_rows() const {
    return (problem.packed ? problem.query_tokens : problem.batch * problem.query_length) * problem.query_heads;
  }
  // Row of per-query scratch of a sequence's first query.
  std::int64_t first_row(std::int64_t b, std::int64_t n, const core::Sequence& s) const {
    return problem.packed ? n * problem.query_tokens + s.query_begin : (b * problem.query_heads + n) * problem.query_length;
  }
};

// Scratch all threads share.
struct SharedScratch {
  float* lse;                   // +inf where a row has no weights
  float* delta;                 // rowsum(dO * out) - grad_lse
  std::uint16_t* query_halves;  // [rows][head_dim], with split_query_sums: the lower halves of dQ's sums
  std::int64_t* passed;         // per unit: how many blocks of its dQ the unit has finished with
  float* bias_partials;         // [tasks][floats of a dBias tile]

  SharedScratch(const BackwardPlan& plan, Carver& carver);
};

// A row of query/key/value/out or of one of their gradients.
inline std::int64_t row_offset(const core::Operand& operand, std::int64_t b, std::int64_t token, std::int64_t head) {
  return b * operand.strides[0] + token * operand.strides[1] + head * operand.strides[2];
}
inline Source source_of(const core::Operand& operand, const void* data, std::int64_t b, std::int64_t token, std::int64_t head,
                        float factor = 1) {
  return {core::advance(data, operand.dtype, row_offset(operand, b, token, head)), operand.dtype, operand.strides[1], factor};
}

// One thread's tile: packs a chunk of keys and a block of queries and turns them into weights and score gradients.
class BackwardTile {
 public:
  BackwardTile(const BackwardPlan& plan, const SharedScratch& shared, bool bias_pass, Carver& carver);

  // Keys [s, s + columns) of a sequence.
  void pack_keys(const core::Buffers& buffers, const core::Sequence& sequence, std::int64_t b, std::int64_t head,
                 std::int64_t s, int columns);
  // Queries [t, t + rows) against the packed keys: computes weights and score gradients in columns [first(), last()), the
  // pieces that some of the queries see. False when they see none.
  bool compute(const core::Buffers& buffers, const core::Sequence& sequence, std::int64_t b, std::int64_t n, std::int64_t t,
               int rows);

  // Adds the tile's share to dV and dK; computes its dQ.
  void add_value_gradient(const core::Buffers& buffers, const core::Sequence& sequence, float* sums, std::int64_t stride);
  void add_key_gradient(const core::Buffers& buffers, const core::Sequence& sequence, float* sums, std::int64_t stride);
  void query_gradient(float* to, std::int64_t stride);

  const float* logit_gradients() const { return logits_; }
  std::int64_t stride() const { return stride_; }
  int first() const { return first_; }
  int last() const { return last_; }

 private:
  void* piece(std::byte* base, std::size_t bytes, int index) const { return base + static_cast<std::size_t>(index) * bytes; }
  int piece_columns(int index) const { return std::min(plan_.key_piece, columns_ - index * plan_.key_piece); }
  bool see(const core::Sequence& sequence);

  const BackwardPlan& plan_;
  const SharedScratch& shared_;
  const bool gradients_wanted_, key_operand_;
  std::int64_t stride_;
  std::size_t key_bytes_, value_bytes_, key_rows_bytes_;
  std::byte *keys_transposed_, *values_transposed_, *keys_;
  std::byte *left_, *right_, *tile_left_;
  float *scores_, *gradients_, *slope_, *keep_, *logits_;
  std::int32_t *begin_, *end_;

  std::int64_t b_ = 0, n_ = 0, t_ = 0, s_ = 0;
  int rows_ = 0, columns_ = 0, first_ = 0, last_ = 0;
};

// Row sums, blank rows, and dSink.
void prepare_backward(const BackwardPlan& plan, const core::Buffers& buffers, const SharedScratch& shared);
void sink_gradient(const BackwardPlan& plan, const core::Buffers& buffers, const SharedScratch& shared);

// dBias where some of its dimensions broadcast.
struct BiasSize {
  std::int64_t tasks = 0;
  std::size_t worker_bytes = 0;
};
BiasSize bias_size(const BackwardPlan& plan, const SharedScratch& shared);
std::int64_t bias_partial_floats(const BackwardPlan& plan);
void bias_gradient(const BackwardPlan& plan, const core::Buffers& buffers, const SharedScratch& shared, std::byte* workers,
                   std::size_t worker_bytes);
// `count` neighbours along the keys, the first at `offset`.
void write_bias_row(const BackwardPlan& plan, const core::Buffers& buffers, std::int64_t offset, const float* from,
                    std::int64_t count);

}  // namespace dhyan::cpu

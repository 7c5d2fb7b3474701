// SPDX-License-Identifier: Apache-2.0
// What the two drivers of the fused forward pass share: the tiled one, and the streaming one for a few queries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/implementation.hpp"
#include "core/problem.hpp"
#include "core/sequence.hpp"
#include "cpu/sizes.hpp"
#include "cpu/softmax.hpp"

namespace dhyan::cpu {

// Part of a worker's scratch.
struct Piece {
  std::size_t offset = 0;
  template <class T>
  T* in(std::byte* scratch) const {
    return reinterpret_cast<T*>(scratch + offset);
  }
};

// How scale is split: the query is multiplied before the product, the scores after it.
struct Scale {
  float query = 1;
  float scores = 1;  // positive
};
Scale split_scale(double scale, dhyan_dtype operand);

// For inputs of `dtype` and products of `operand`s.
WeightForm weight_form(dhyan_dtype dtype, dhyan_dtype operand);

// Keys that some query of [begin, end) sees.
core::KeyRange keys_of(const core::Problem& p, const core::Sequence& s, std::int64_t begin, std::int64_t end);

// Whether causal or a window hides some of these keys from some query of [begin, end).
bool partly_hidden(const core::Problem& p, const core::Sequence& s, std::int64_t begin, std::int64_t end, core::KeyRange keys);

// What online softmax knows of a row: see SoftmaxKernels::tile.
struct RowSum {
  float highest, total, factor;
};

// Writes out and lse of a row from the sum of its weighted values. `row` is overwritten where nothing was visible.
void finish_row(const core::Problem& p, const core::Buffers& buffers, const SoftmaxKernels& softmax, std::int64_t b,
                std::int64_t n, std::int64_t token, const RowSum& sum, float* row);

// Out and lse of a row that no query stands behind, and of all such rows between packed sequences.
void blank_row(const core::Problem& p, const core::Buffers& buffers, std::int64_t b, std::int64_t n, std::int64_t token);
void blank_gaps(const core::Problem& p, const core::Buffers& buffers);

// Whether so few queries meet each key that packing keys costs more than it saves.
bool streams(const core::Problem& p);
std::unique_ptr<core::Executable> plan_fused_stream(const core::Problem& problem);

}  // namespace dhyan::cpu

// SPDX-License-Identifier: Apache-2.0
// What cuDNN leaves to do around its own kernels: lengths as it wants them, and rows on which its answer is not ours.
#pragma once

#include <array>
#include <cstdint>

#include "core/problem.hpp"

namespace dhyan::cudnn {

// Where each sequence of a tensor begins, in elements.
struct OffsetsOf {
  bool queries = true;
  std::int64_t batch_stride = 0, token_stride = 0;
  std::int64_t* to = nullptr;  // [batch + 1]; null: none
};
inline constexpr int kMaxOffsets = 8;

struct Lengths {
  std::int32_t* queries;  // [batch]
  std::int32_t* keys;
  std::array<OffsetsOf, kMaxOffsets> offsets;
};
// Lengths clamped as dhyan.h says. A sequence without keys gets no queries: cuDNN divides 0 by 0 there.
void write_lengths(const core::Problem& p, const core::Buffers& buffers, const Lengths& lengths, void* stream);

// Packed: zeros in every row of out (backward: the gradients asked for) and -inf in lse, for the rows that no sequence holds.
void blank_gaps(const core::Problem& p, const core::Buffers& buffers, void* stream);

// The same for the rows of each sequence, or past its length, that see nothing or that nothing sees.
void blank_rows(const core::Problem& p, const core::Buffers& buffers, void* stream);

// lse of the sequences from stats [batch, head, token].
void store_lse(const core::Problem& p, const core::Buffers& buffers, const float* stats, void* stream);
// The other way round. Rows that see nothing get +inf, so that every weight of theirs is 0.
void load_lse(const core::Problem& p, const core::Buffers& buffers, float* stats, void* stream);

}  // namespace dhyan::cudnn

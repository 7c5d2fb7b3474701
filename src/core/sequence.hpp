// SPDX-License-Identifier: Apache-2.0
// Where the tokens of one batch entry lie, and which keys a query sees.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/host_device.hpp"
#include "core/problem.hpp"

namespace dhyan::core {

struct Sequence {
  std::int64_t query_begin = 0;  // first token's row; 0 when dense (the batch stride does the rest)
  std::int64_t query_count = 0;
  std::int64_t key_begin = 0;
  std::int64_t key_count = 0;
  std::int64_t shift = 0;  // t + shift is the key position that query t stands on, in this sequence's own key positions
};

struct KeyRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;  // begin == end: nothing visible
};

DHYAN_HOST_DEVICE inline std::int64_t index_at(const void* data, dhyan_dtype dtype, std::int64_t i) {
  return dtype == DHYAN_I64 ? static_cast<const std::int64_t*>(data)[i] : static_cast<const std::int32_t*>(data)[i];
}

// Start and length of one side's sequence b, clamped to the extent.
DHYAN_HOST_DEVICE inline void locate(const Operand& lengths, const void* lengths_data, const Operand& offsets,
                                     const void* offsets_data, std::int64_t b, std::int64_t tokens, std::int64_t longest,
                                     std::int64_t& begin, std::int64_t& count) {
  begin = 0;
  count = longest;
  if (offsets.present()) {
    begin = std::clamp<std::int64_t>(index_at(offsets_data, offsets.dtype, b * offsets.strides[0]), 0, tokens);
    const std::int64_t next = index_at(offsets_data, offsets.dtype, (b + 1) * offsets.strides[0]);
    count = std::clamp<std::int64_t>(next, begin, tokens) - begin;
  }
  if (lengths.present()) count = index_at(lengths_data, lengths.dtype, b * lengths.strides[0]);
  count = std::clamp<std::int64_t>(count, 0, std::min(longest, tokens - begin));
}

DHYAN_HOST_DEVICE inline Sequence sequence(const Problem& p, const Buffers& buffers, std::int64_t b) {
  Sequence s;
  locate(p.query_lengths, buffers.query_lengths, p.query_offsets, buffers.query_offsets, b, p.query_tokens, p.query_length,
         s.query_begin, s.query_count);
  locate(p.key_lengths, buffers.key_lengths, p.key_offsets, buffers.key_offsets, b, p.key_tokens, p.key_length, s.key_begin,
         s.key_count);
  s.shift = p.query_origin - p.key_origin;
  if (p.causal == DHYAN_CAUSAL_BOTTOM_RIGHT) s.shift += s.key_count - s.query_count;
  return s;
}

// Keys that causal, window and length leave visible to query t of the sequence (the mask tensor aside).
DHYAN_HOST_DEVICE inline KeyRange visible_keys(const Problem& p, const Sequence& s, std::int64_t t) {
  const std::int64_t diagonal = t + s.shift;
  std::int64_t begin = 0;
  std::int64_t end = s.key_count;
  if (p.window_left >= 0) begin = std::max(begin, diagonal - p.window_left);
  if (p.window_right >= 0) end = std::min(end, diagonal + p.window_right + 1);
  if (p.causal != DHYAN_CAUSAL_OFF) end = std::min(end, diagonal + 1);
  if (begin >= end) return {0, 0};
  return {begin, end};
}

// Queries [begin, end) of the sequence that may see some key of [key_begin, key_end): the rows a block of keys must visit.
DHYAN_HOST_DEVICE inline KeyRange visible_queries(const Problem& p, const Sequence& s, std::int64_t key_begin,
                                                  std::int64_t key_end) {
  std::int64_t begin = 0;
  std::int64_t end = s.query_count;
  const bool bounded_right = p.causal != DHYAN_CAUSAL_OFF || p.window_right >= 0;
  const std::int64_t right = p.causal != DHYAN_CAUSAL_OFF ? 0 : p.window_right;
  if (bounded_right) begin = std::max(begin, key_begin - right - s.shift);
  if (p.window_left >= 0) end = std::min(end, key_end + p.window_left - s.shift);
  if (begin >= end || key_begin >= key_end) return {0, 0};
  return {begin, end};
}

// Calls visit(b, begin, end) for the rows of one side that no sequence holds: past a length, or in a gap of a packing (b is
// then 0). Every output is blank there.
template <class Visit>
void uncovered_rows(const Problem& p, const Buffers& buffers, bool queries, const Visit& visit) {
  const std::int64_t tokens = queries ? p.query_tokens : p.key_tokens;
  if (!p.packed) {
    if (!(queries ? p.query_lengths : p.key_lengths).present()) return;
    for (std::int64_t b = 0; b < p.batch; ++b) {
      const Sequence s = sequence(p, buffers, b);
      const std::int64_t count = queries ? s.query_count : s.key_count;
      if (count < tokens) visit(b, count, tokens);
    }
    return;
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> held;
  held.reserve(static_cast<std::size_t>(p.batch));
  for (std::int64_t b = 0; b < p.batch; ++b) {
    const Sequence s = sequence(p, buffers, b);
    const std::int64_t begin = queries ? s.query_begin : s.key_begin;
    held.emplace_back(begin, begin + (queries ? s.query_count : s.key_count));
  }
  std::sort(held.begin(), held.end());
  std::int64_t at = 0;
  for (const auto& [begin, end] : held) {
    if (begin > at) visit(std::int64_t{0}, at, begin);
    at = std::max(at, end);
  }
  if (at < tokens) visit(std::int64_t{0}, at, tokens);
}

}  // namespace dhyan::core

// SPDX-License-Identifier: Apache-2.0
// The validated, normalised problem: all that an implementation may know.
#pragma once

#include <array>
#include <cstdint>

#include "core/host_device.hpp"
#include "dhyan/dhyan.h"

namespace dhyan::core {

// One tensor of a problem. Strides are in elements and follow the order of dimensions named below; a dimension that is absent
// or broadcasts has stride 0. The innermost stride is 1 and not stored for query/key/value/out.
struct Operand {
  dhyan_dtype dtype = DHYAN_NONE;
  std::array<std::int64_t, 4> strides{};
  std::int32_t alignment = 0;  // bytes every run's pointer has

  DHYAN_HOST_DEVICE bool present() const { return dtype != DHYAN_NONE; }
  bool operator==(const Operand&) const = default;
};

struct Dropout {
  double probability = 0;
  std::uint64_t threshold = 0;  // floor(p * 2^32): a word below it is dropped
  std::uint64_t key = 0;        // seed and offset mixed as dhyan.h says

  bool operator==(const Dropout&) const = default;
};

struct Problem {
  dhyan_direction direction = DHYAN_FORWARD;
  dhyan_implementation requested = DHYAN_AUTO;
  dhyan_device_type device_type = DHYAN_CPU;
  std::int32_t device_index = 0;
  dhyan_dtype dtype = DHYAN_NONE;  // of query, key, value, out and their gradients

  bool packed = false;
  std::int64_t batch = 0;
  std::int64_t query_length = 0;  // T; packed: the longest sequence there can be
  std::int64_t key_length = 0;    // S; likewise
  std::int64_t query_tokens = 0;  // packed: rows of query; dense: T
  std::int64_t key_tokens = 0;
  std::int64_t query_heads = 0;
  std::int64_t key_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t value_head_dim = 0;

  double scale = 0;
  double softcap = 0;  // 0: off
  dhyan_causal causal = DHYAN_CAUSAL_OFF;
  std::int64_t window_left = -1;  // -1: unlimited
  std::int64_t window_right = -1;
  Dropout dropout;
  std::int64_t batch_origin = 0, head_origin = 0, query_origin = 0, key_origin = 0;
  dhyan_precision precision = DHYAN_PRECISION_DEFAULT;
  std::int32_t threads = 1;  // resolved: never 0
  bool allow_jit = false;
  bool check_pointers = false;
  bool deterministic = false;

  Operand query, key, value, out, grad_out, grad_query, grad_key, grad_value;  // strides: batch (packed: 0), token, head
  Operand lse, grad_lse;                                                       // strides: batch (packed: 0), head, token
  Operand bias, mask, grad_bias;                                               // strides: batch, head, query, key
  std::array<std::int64_t, 4> bias_shape{};                                    // 1 where it broadcasts
  Operand alibi_slopes;                                                        // strides: batch, head
  Operand sink, grad_sink;                                                     // strides: head
  Operand query_lengths, key_lengths, query_offsets, key_offsets;              // strides: batch entry

  DHYAN_HOST_DEVICE std::int64_t group() const { return key_heads == 0 ? 1 : query_heads / key_heads; }
  DHYAN_HOST_DEVICE bool has_dropout() const { return dropout.threshold > 0; }
  bool operator==(const Problem&) const = default;
};

using Buffers = dhyan_buffers;

}  // namespace dhyan::core

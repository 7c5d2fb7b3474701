// SPDX-License-Identifier: Apache-2.0
// One attention problem as data, and the tensors made from it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/implementation.hpp"
#include "core/problem.hpp"
#include "core/sequence.hpp"
#include "support/array.hpp"
#include "support/random.hpp"

namespace dhyan::testing {

enum class Slopes { none, per_head, per_batch_and_head };

struct Case {
  std::string name;
  dhyan_dtype dtype = DHYAN_F32;
  std::int64_t batch = 2;
  std::int64_t query_length = 19;
  std::int64_t key_length = 37;
  std::int64_t query_heads = 4;
  std::int64_t key_heads = 2;
  std::int64_t head_dim = 24;
  std::int64_t value_head_dim = 24;
  Layout layout = Layout::contiguous;

  double scale = -1;  // -1: 1 / sqrt(H)
  double softcap = 0;
  dhyan_causal causal = DHYAN_CAUSAL_OFF;
  std::int64_t window_left = -1;
  std::int64_t window_right = -1;
  dhyan_dtype bias = DHYAN_NONE;
  std::array<bool, 4> bias_broadcast{};  // true: size 1
  double bias_spread = 1;
  double bias_minus_infinity = 0;  // the share of its elements
  bool mask = false;
  std::array<bool, 4> mask_broadcast{};
  double mask_keep = 0.8;
  Slopes slopes = Slopes::none;
  bool sink = false;
  double sink_value = 0;  // added to random ones

  // Dense: the lengths given, or none. Packed: the sequences' lengths, always.
  std::vector<std::int64_t> query_lengths;
  std::vector<std::int64_t> key_lengths;
  bool packed = false;
  std::int64_t packing_gap = 0;  // unused tokens after each sequence; lengths are then given too
  dhyan_dtype offsets = DHYAN_I32;

  double dropout = 0;
  std::uint64_t dropout_seed = 0;
  std::uint64_t dropout_offset = 0;
  std::int64_t batch_origin = 0, head_origin = 0, query_origin = 0, key_origin = 0;

  bool lse = true;
  bool grad_query = true, grad_key = true, grad_value = true;
  bool grad_lse = false, grad_bias = false, grad_sink = false;

  double spread = 1;  // of queries and keys
  double offset = 0;  // added to keys: logits far from 0
  int threads = 2;
};

// "bf16 B2 T19 S37 N4 K2 H24 causal=top_left ...": what a failure prints.
std::string describe(const Case& c);
void PrintTo(const Case& c, std::ostream* stream);

// The inputs of a case. Rows past a length or in a gap, and bias past a sequence, hold NaN.
struct Instance {
  Instance(const Case& description, Random random);

  Case description;
  core::Problem problem;  // forward; `backward_problem` turns it
  Array query, key, value, bias, mask, alibi_slopes, sink, query_lengths, key_lengths, query_offsets, key_offsets;
  Array grad_out, grad_lse;
  Array out, lse;  // where forward writes; the layout only

  core::Buffers buffers() const;  // the inputs
  core::Sequence sequence(std::int64_t b) const;
};

struct Forward {
  Array out, lse;
};

struct Backward {
  Array grad_query, grad_key, grad_value, grad_bias, grad_sink;
};

core::Problem backward_problem(const Instance& instance, const Backward& gradients);
dhyan_device_description test_device();

// Why the implementation refuses; empty when it does not.
std::string refusal(const core::ImplementationEntry& entry, const core::Problem& problem);

// Plan and run with poisoned outputs and scratch; memory around the outputs is checked. The case must not be refused.
Forward forward(const core::ImplementationEntry& entry, const Instance& instance, int threads = 0);
Backward backward(const core::ImplementationEntry& entry, const Instance& instance, const Forward& given, int threads = 0);

// Poisoned outputs in the case's own types and layout.
Backward empty_gradients(const Instance& instance);

// What the reference computes before it rounds: the outputs are f64 whatever the inputs are.
Forward exact_forward(const Instance& instance);
Backward exact_backward(const Instance& instance, const Forward& given);
// An exact result as the case's own types hold it: what a backward pass is given.
Forward rounded(const Instance& instance, const Forward& exact);

}  // namespace dhyan::testing

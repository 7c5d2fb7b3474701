// SPDX-License-Identifier: Apache-2.0
// The tensors of a problem, one row each: the same order in dhyan_problem, dhyan_buffers and core::Problem.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>

#include "core/problem.hpp"

namespace dhyan::api {

enum Slot : std::size_t {
  kQuery,
  kKey,
  kValue,
  kOut,
  kLse,
  kBias,
  kMask,
  kAlibiSlopes,
  kSink,
  kQueryLengths,
  kKeyLengths,
  kQueryOffsets,
  kKeyOffsets,
  kGradOut,
  kGradLse,
  kGradQuery,
  kGradKey,
  kGradValue,
  kGradBias,
  kGradSink,
  kSlots
};

enum class Use { input, output, forward_output };  // forward_output: written forward, read backward

struct SlotRow {
  const char* name;
  const dhyan_tensor* dhyan_problem::*view;
  core::Operand core::Problem::*operand;
  Use use;
  bool backward_only;
};

inline constexpr std::array<SlotRow, kSlots> kSlotRows = {{
    {"query", &dhyan_problem::query, &core::Problem::query, Use::input, false},
    {"key", &dhyan_problem::key, &core::Problem::key, Use::input, false},
    {"value", &dhyan_problem::value, &core::Problem::value, Use::input, false},
    {"out", &dhyan_problem::out, &core::Problem::out, Use::forward_output, false},
    {"lse", &dhyan_problem::lse, &core::Problem::lse, Use::forward_output, false},
    {"bias", &dhyan_problem::bias, &core::Problem::bias, Use::input, false},
    {"mask", &dhyan_problem::mask, &core::Problem::mask, Use::input, false},
    {"alibi_slopes", &dhyan_problem::alibi_slopes, &core::Problem::alibi_slopes, Use::input, false},
    {"sink", &dhyan_problem::sink, &core::Problem::sink, Use::input, false},
    {"query_lengths", &dhyan_problem::query_lengths, &core::Problem::query_lengths, Use::input, false},
    {"key_lengths", &dhyan_problem::key_lengths, &core::Problem::key_lengths, Use::input, false},
    {"query_offsets", &dhyan_problem::query_offsets, &core::Problem::query_offsets, Use::input, false},
    {"key_offsets", &dhyan_problem::key_offsets, &core::Problem::key_offsets, Use::input, false},
    {"grad_out", &dhyan_problem::grad_out, &core::Problem::grad_out, Use::input, true},
    {"grad_lse", &dhyan_problem::grad_lse, &core::Problem::grad_lse, Use::input, true},
    {"grad_query", &dhyan_problem::grad_query, &core::Problem::grad_query, Use::output, true},
    {"grad_key", &dhyan_problem::grad_key, &core::Problem::grad_key, Use::output, true},
    {"grad_value", &dhyan_problem::grad_value, &core::Problem::grad_value, Use::output, true},
    {"grad_bias", &dhyan_problem::grad_bias, &core::Problem::grad_bias, Use::output, true},
    {"grad_sink", &dhyan_problem::grad_sink, &core::Problem::grad_sink, Use::output, true},
}};

inline bool is_output(Slot slot, dhyan_direction direction) {
  const Use use = kSlotRows[slot].use;
  return use == Use::output || (use == Use::forward_output && direction == DHYAN_FORWARD);
}

using Pointers = std::array<const void*, kSlots>;

// dhyan_buffers is its size and then the pointers in the order of Slot.
static_assert(sizeof(dhyan_buffers) == sizeof(std::size_t) + sizeof(Pointers));
static_assert(offsetof(dhyan_buffers, query) == sizeof(std::size_t) + kQuery * sizeof(void*));
static_assert(offsetof(dhyan_buffers, lse) == sizeof(std::size_t) + kLse * sizeof(void*));
static_assert(offsetof(dhyan_buffers, key_offsets) == sizeof(std::size_t) + kKeyOffsets * sizeof(void*));
static_assert(offsetof(dhyan_buffers, grad_sink) == sizeof(std::size_t) + kGradSink * sizeof(void*));

inline Pointers pointers_of(const dhyan_buffers& buffers) {
  Pointers pointers;
  std::memcpy(pointers.data(), reinterpret_cast<const std::byte*>(&buffers) + offsetof(dhyan_buffers, query), sizeof pointers);
  return pointers;
}

inline dhyan_buffers buffers_of(const Pointers& pointers) {
  dhyan_buffers buffers;
  buffers.struct_size = sizeof buffers;
  std::memcpy(reinterpret_cast<std::byte*>(&buffers) + offsetof(dhyan_buffers, query), pointers.data(), sizeof pointers);
  return buffers;
}

}  // namespace dhyan::api

// SPDX-License-Identifier: Apache-2.0
// What a graph is built from: all of a problem that cuDNN's plan bakes in, in cuDNN's terms. No cuDNN type stands here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/problem.hpp"
#include "cudnn/rules.hpp"

namespace dhyan::cudnn {

// Shape and strides in cuDNN's order: batch, head, token, element. Packed: the batch stride is 0.
struct Tensor {
  dhyan_dtype dtype = DHYAN_NONE;
  std::array<std::int64_t, 4> shape{}, strides{};

  bool present() const { return dtype != DHYAN_NONE; }
  bool operator==(const Tensor&) const = default;
};

struct Description {
  std::int32_t device = 0;
  std::int32_t capability = 0;  // the device's compute capability: 90 is 9.0
  std::size_t version = 0;      // cuDNN's
  dhyan_direction direction = DHYAN_FORWARD;
  Tensor query, key, value, out, stats, bias, sink;
  Tensor grad_out, grad_query, grad_key, grad_value, grad_bias, grad_sink;
  bool lengths = false;  // each batch entry has its own lengths (cuDNN's padding mask)
  bool ragged = false;   // and its own offsets, so that what lies past a length is never loaded
  // Query t sees keys s with t + d - left < s <= t + d + right, d = 0 or key length - query length; -1: no such bound.
  bool bottom_right = false;
  std::int64_t left = -1, right = -1;
  float scale = 0;
  bool deterministic = false;

  bool operator==(const Description&) const = default;
};

// For a problem that breaks no rule. Tensors that the problem lacks and cuDNN writes all the same are contiguous.
Description describe(const core::Problem& problem, const Facts& facts);

// Whether some query may see no key: cuDNN's answer is not ours there.
bool may_have_empty_rows(const core::Problem& problem);

}  // namespace dhyan::cudnn

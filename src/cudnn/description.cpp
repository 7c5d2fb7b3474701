// SPDX-License-Identifier: Apache-2.0
#include "cudnn/description.hpp"

#include "core/sequence.hpp"
#include "cudnn/band.hpp"

namespace dhyan::cudnn {
namespace {

// Strides of dimensions of size 1 are not looked at; cuDNN is given plausible ones.
Tensor tensor(dhyan_dtype dtype, const std::array<std::int64_t, 4>& shape, const std::array<std::int64_t, 4>& strides) {
  Tensor x{dtype, shape, strides};
  for (std::size_t i = 0; i < 3; ++i) {
    if (shape[i] == 1) x.strides[i] = shape[1] * shape[2] * shape[3];
  }
  x.strides[3] = 1;
  return x;
}

Tensor contiguous(dhyan_dtype dtype, const std::array<std::int64_t, 4>& shape) {
  return {dtype, shape, {shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1}};
}

// Rows of query, key, value, out or a gradient of theirs.
Tensor rows(const core::Operand& x, std::int64_t batch, std::int64_t heads, std::int64_t tokens, std::int64_t width) {
  return tensor(x.dtype, {batch, heads, tokens, width}, {x.strides[0], x.strides[2], x.strides[1], 1});
}

// A gradient that nobody asked for and cuDNN writes all the same: packed as the input is, or contiguous.
Tensor gradient(const core::Problem& p, const core::Operand& x, const Tensor& of) {
  if (x.present()) return rows(x, of.shape[0], of.shape[1], of.shape[2], of.shape[3]);
  if (!p.packed) return contiguous(of.dtype, of.shape);
  return {of.dtype, of.shape, {0, of.shape[3], of.shape[1] * of.shape[3], 1}};
}

void describe_backward(const core::Problem& p, Description& d) {
  d.grad_out = rows(p.grad_out, p.batch, p.query_heads, p.query_length, p.value_head_dim);
  d.grad_query = gradient(p, p.grad_query, d.query);
  d.grad_key = gradient(p, p.grad_key, d.key);
  d.grad_value = gradient(p, p.grad_value, d.value);
  if (p.grad_bias.present()) d.grad_bias = tensor(p.grad_bias.dtype, p.bias_shape, p.grad_bias.strides);
  if (p.grad_sink.present()) d.grad_sink = contiguous(DHYAN_F32, {1, p.query_heads, 1, 1});
}

// Without lengths cuDNN 9.19 leaves tails unguarded backward, where it makes NaN of an lse under -88.7, and refuses some bands
// with more queries than keys.
bool needs_lengths(const core::Problem& p, const Description& d) {
  if (d.ragged) return true;
  const bool more_queries = p.query_length > p.key_length;
  if ((d.bottom_right || d.left >= 0) && more_queries) return true;
  if (p.direction == DHYAN_FORWARD) return false;
  return p.query_length % 64 != 0 || p.key_length % 128 != 0;
}

}  // namespace

Description describe(const core::Problem& p, const Facts& facts) {
  Description d;
  d.device = p.device_index;
  d.capability = facts.major * 10 + facts.minor;
  d.version = facts.version;
  d.direction = p.direction;
  d.query = rows(p.query, p.batch, p.query_heads, p.query_length, p.head_dim);
  d.key = rows(p.key, p.batch, p.key_heads, p.key_length, p.head_dim);
  d.value = rows(p.value, p.batch, p.key_heads, p.key_length, p.value_head_dim);
  d.out = rows(p.out, p.batch, p.query_heads, p.query_length, p.value_head_dim);
  const bool backward = p.direction == DHYAN_BACKWARD;
  d.ragged = p.packed || p.query_lengths.present() || p.key_lengths.present();
  if (backward || (d.ragged && p.lse.present())) {
    d.stats = contiguous(DHYAN_F32, {p.batch, p.query_heads, p.query_length, 1});
  } else if (p.lse.present()) {
    d.stats = tensor(DHYAN_F32, {p.batch, p.query_heads, p.query_length, 1},
                     {p.lse.strides[0], p.lse.strides[1], p.lse.strides[2], 1});
  }
  if (p.bias.present()) d.bias = tensor(p.bias.dtype, p.bias_shape, p.bias.strides);
  if (p.sink.present()) d.sink = contiguous(DHYAN_F32, {1, p.query_heads, 1, 1});
  if (backward) describe_backward(p, d);
  const Band band = band_of(p);
  d.bottom_right = band.bottom_right;
  d.left = band.left;
  d.right = band.right;
  d.lengths = needs_lengths(p, d);
  d.scale = static_cast<float>(p.scale);
  d.deterministic = backward && p.deterministic;
  return d;
}

bool may_have_empty_rows(const core::Problem& p) {
  if (p.packed || p.query_lengths.present() || p.key_lengths.present()) return true;
  core::Sequence s{0, p.query_length, 0, p.key_length, p.query_origin - p.key_origin};
  if (p.causal == DHYAN_CAUSAL_BOTTOM_RIGHT) s.shift += p.key_length - p.query_length;
  // What is visible moves one way with t, so that the first or the last query sees nothing if any does.
  for (const std::int64_t t : {std::int64_t{0}, p.query_length - 1}) {
    const core::KeyRange keys = core::visible_keys(p, s, t);
    if (keys.begin == keys.end) return true;
  }
  return false;
}

}  // namespace dhyan::cudnn

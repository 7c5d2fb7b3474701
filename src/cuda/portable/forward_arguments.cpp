// SPDX-License-Identifier: Apache-2.0
#include "core/early_scale.hpp"
#include "cuda/portable/forward.hpp"

namespace dhyan::cuda::portable {
namespace {

RowStrides rows(const core::Operand& x) { return {x.strides[0], x.strides[1], x.strides[2]}; }

}  // namespace

ForwardArguments forward_arguments(const core::Problem& p) {
  ForwardArguments a{};
  a.query_strides = rows(p.query);
  a.key_strides = rows(p.key);
  a.value_strides = rows(p.value);
  a.out_strides = rows(p.out);
  a.lse_strides = {p.lse.strides[0], p.lse.strides[2], p.lse.strides[1]};
  a.key_heads = static_cast<int>(p.key_heads);
  a.group = static_cast<int>(p.group());
  a.by_group = Divisor(static_cast<std::uint32_t>(p.group()));
  a.splits = 1;
  a.query_length = static_cast<int>(p.query_length);
  a.key_length = static_cast<int>(p.key_length);
  a.head_dim = static_cast<int>(p.head_dim);
  a.value_head_dim = static_cast<int>(p.value_head_dim);
  a.shift = p.query_origin - p.key_origin;
  a.window_left = p.window_left;
  a.window_right = p.causal != DHYAN_CAUSAL_OFF ? 0 : p.window_right;
  a.early = static_cast<float>(core::early_scale(p));
  a.factor = static_cast<float>(p.scale / a.early);
  a.kept = static_cast<float>(1 / (1 - p.dropout.probability));
  a.bottom_right = p.causal == DHYAN_CAUSAL_BOTTOM_RIGHT;
  a.packed = p.packed;
  a.batch = p.batch;
  a.dtype = p.dtype;
  a.sink_stride = p.sink.strides[0];
  a.lengths = p.query_lengths.present() || p.key_lengths.present() || p.query_offsets.present() || p.key_offsets.present();
  a.query_lengths_operand = p.query_lengths;
  a.key_lengths_operand = p.key_lengths;
  a.query_offsets_operand = p.query_offsets;
  a.key_offsets_operand = p.key_offsets;
  a.query_tokens = p.query_tokens;
  a.key_tokens = p.key_tokens;
  return a;
}

void bind(ForwardArguments& a, const core::Problem& p, const core::Buffers& buffers) {
  a.query = buffers.query;
  a.key = buffers.key;
  a.value = buffers.value;
  a.out = buffers.out;
  a.lse = p.lse.present() ? static_cast<float*>(buffers.lse) : nullptr;
  a.sink = p.sink.present() ? static_cast<const float*>(buffers.sink) : nullptr;
  a.query_lengths = buffers.query_lengths;
  a.key_lengths = buffers.key_lengths;
  a.query_offsets = buffers.query_offsets;
  a.key_offsets = buffers.key_offsets;
}

}  // namespace dhyan::cuda::portable

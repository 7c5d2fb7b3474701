// SPDX-License-Identifier: Apache-2.0
#include "measure/limits.hpp"

#include <algorithm>
#include <cmath>

namespace dhyan::app {
namespace {

double roundoff(Element element) {
  switch (element) {
    case Element::f64:
      return 0x1p-53;
    case Element::f32:
      return 0x1p-24;
    case Element::f16:
      return 0x1p-11;
    default:
      return 0x1p-8;  // bf16
  }
}

}  // namespace

Magnitudes magnitudes_of(const Array& array) {
  constexpr std::int64_t slab_elements = 1 << 20;
  const std::int64_t width = std::max<std::int64_t>(array.shape.empty() ? 1 : array.shape.back(), 1);
  const std::int64_t rows = array.count() / width;
  const std::int64_t slab = std::max<std::int64_t>(slab_elements / width, 1);
  const ElementInfo& info = info_of(array.element);
  Buffer wide(static_cast<std::size_t>(std::min(slab, std::max<std::int64_t>(rows, 1)) * width) * sizeof(double));
  const auto* values = reinterpret_cast<const double*>(wide.data());
  Magnitudes result;
  double squares = 0;
  std::int64_t counted = 0;
  for (std::int64_t first = 0; first < rows; first += slab) {
    const std::int64_t count = std::min(slab, rows - first) * width;
    const std::int64_t shape[] = {count};
    convert(TensorView(array.data.data() + static_cast<std::size_t>(first * width) * info.size, info.dtype, shape),
            TensorView(wide.data(), DType::f64, shape));
    for (std::int64_t r = 0; r < count / width; ++r) {
      double square = 0, largest = 0;
      for (std::int64_t i = 0; i < width; ++i) {
        const double x = values[r * width + i];
        square += x * x;
        largest = std::max(largest, std::abs(x));
      }
      if (!std::isfinite(square)) continue;
      squares += square;
      result.largest = std::max(result.largest, largest);
      result.longest_row = std::max(result.longest_row, std::sqrt(square));
      ++counted;
    }
  }
  if (counted > 0) result.mean_row = std::sqrt(squares / static_cast<double>(counted));
  return result;
}

double LimitTable::sum_error(double terms) const { return accumulation_ * (4 * std::sqrt(terms) + 8); }

LimitTable::LimitTable(const Call& call, const Geometry& g) {
  query_ = magnitudes_of(call.query);
  key_ = magnitudes_of(call.key);
  value_ = magnitudes_of(call.value);
  roundoff_ = roundoff(call.element());
  accumulation_ = call.element() == Element::f64 ? 0x1p-53 : 0x1p-24;
  bias_roundoff_ = call.bias ? roundoff(call.bias->element) : 0;
  head_dim_ = static_cast<double>(g.head_dim);
  value_head_dim_ = static_cast<double>(g.value_head_dim);
  scale_ = std::abs(call.scale.value_or(1 / std::sqrt(std::max(head_dim_, 1.0))));
  kept_ = 1 / (1 - call.dropout.probability);
  double tokens = 0, keys = 0;
  for (const Sequence& s : g.sequences) {
    tokens += static_cast<double>(s.query_count);
    keys += static_cast<double>(s.key_count);
  }
  rows_ = std::max(1.0, tokens * static_cast<double>(g.query_heads));
  key_rows_ = std::max(1.0, keys * static_cast<double>(g.key_heads));
  heads_ = std::max(1.0, static_cast<double>(g.query_heads));
  shared_rows_ = std::max(1.0, static_cast<double>(g.query_length) * heads_ / std::max(1.0, static_cast<double>(g.key_heads)));
  visible_keys_ = static_cast<double>(g.key_length);
  const bool bounded = call.window.left >= 0 && (call.window.right >= 0 || call.causal != Causal::off);
  if (bounded) {
    const double right = call.causal != Causal::off ? 0 : static_cast<double>(call.window.right);
    visible_keys_ = std::min(visible_keys_, static_cast<double>(call.window.left) + right + 1);
  }
  visible_keys_ = std::max(visible_keys_, 1.0);

  double terms = scale_ * query_.longest_row * key_.longest_row + call.softcap;
  if (call.bias) {
    terms += magnitudes_of(*call.bias).largest;
    bias_elements_ = static_cast<double>(std::max<std::int64_t>(call.bias->count(), 1));
  }
  if (call.alibi_slopes) {
    const double distance = static_cast<double>(std::max(g.query_length, g.key_length)) +
                            std::abs(static_cast<double>(call.origin.query - call.origin.key));
    terms += magnitudes_of(*call.alibi_slopes).largest * distance;
  }
  if (call.sink) terms += magnitudes_of(*call.sink).largest;
  logit_error_ = sum_error(head_dim_) * scale_ * query_.longest_row * key_.longest_row + 4 * accumulation_ * terms;
  weight_error_ = 2 * logit_error_ + 8 * accumulation_;
  if (call.grad_out) {
    grad_out_ = magnitudes_of(*call.grad_out);
    delta_error_ = sum_error(value_head_dim_) * grad_out_.longest_row * value_.longest_row * kept_;
    if (call.grad_lse) delta_error_ += 4 * accumulation_ * magnitudes_of(*call.grad_lse).largest;
  } else {
    delta_error_ = 0;
  }
}

Limits LimitTable::of(const std::string& name) const {
  const double rounding = weight_error_ + sum_error(visible_keys_);
  const double relative = 2 * roundoff_ + rounding;
  // What a row's gradients of logits amount to when weights spread over all visible keys, as its rounding sees them.
  const double row_gradient =
      2 * grad_out_.mean_row * value_.mean_row * kept_ / std::sqrt(std::max(value_head_dim_, 1.0)) / std::sqrt(visible_keys_);
  const double logit_gradient_noise = delta_error_ + 2 * roundoff_ * row_gradient;
  if (name == "out") {
    const double element = value_.mean_row / std::sqrt(std::max(value_head_dim_, 1.0));
    return {relative, relative * element * kept_ / std::sqrt(visible_keys_), value_.largest * kept_ * (roundoff_ + rounding)};
  }
  if (name == "lse") return {4 * accumulation_, 2 * logit_error_ + sum_error(visible_keys_), 0};
  if (name == "grad_query") {
    const double noise = scale_ * key_.longest_row * logit_gradient_noise / std::sqrt(std::max(head_dim_, 1.0));
    return {relative + weight_error_, noise, scale_ * key_.longest_row * delta_error_};
  }
  const double rows_per_key = std::sqrt(rows_ / key_rows_);
  if (name == "grad_key") {
    const double noise =
        scale_ * query_.longest_row * logit_gradient_noise * rows_per_key / std::sqrt(std::max(head_dim_, 1.0));
    return {relative + weight_error_, noise, scale_ * query_.longest_row * delta_error_ * std::sqrt(shared_rows_)};
  }
  if (name == "grad_value") {
    const double element = grad_out_.mean_row / std::sqrt(std::max(value_head_dim_, 1.0));
    return {relative + weight_error_, relative * element * kept_ * rows_per_key / std::sqrt(visible_keys_), 0};
  }
  if (name == "grad_bias") {
    const double summed = std::sqrt(std::max(1.0, rows_ / bias_elements_));
    return {2 * bias_roundoff_ + 2 * weight_error_, delta_error_ * summed, delta_error_ * std::sqrt(rows_)};
  }
  return {4 * accumulation_ + 2 * weight_error_, delta_error_ * std::sqrt(rows_ / heads_), delta_error_ * std::sqrt(rows_)};
}

}  // namespace dhyan::app

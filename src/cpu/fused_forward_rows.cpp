// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/convert.hpp"
#include "cpu/fused_forward.hpp"

namespace dhyan::cpu {

// The query is never made larger, so that no product overflows which would fit when scaled. Operands that are rounded to bf16
// take only a power of two, which is exact.
Scale split_scale(double scale, dhyan_dtype operand) {
  // 0 also for what float32 rounds to it: no later factor may be 0.
  if (operand != DHYAN_BF16 || static_cast<float>(scale) == 0) {
    const double late = late_scale(scale);
    return {static_cast<float>(scale / late), static_cast<float>(late)};
  }
  const int exponent = std::clamp(std::ilogb(scale), -126, 0);
  const double query = std::copysign(std::ldexp(1.0, exponent), scale);
  return {static_cast<float>(query), static_cast<float>(scale / query)};
}

WeightForm weight_form(dhyan_dtype dtype, dhyan_dtype operand) {
  if (operand == DHYAN_BF16) return WeightForm::bf16;
  if (dtype == DHYAN_BF16) return WeightForm::f32_bf16;
  return dtype == DHYAN_F16 ? WeightForm::f32_f16 : WeightForm::f32;
}

// Keys that some query of [begin, end) sees.
core::KeyRange keys_of(const core::Problem& p, const core::Sequence& s, std::int64_t begin, std::int64_t end) {
  core::KeyRange keys{0, s.key_count};
  if (p.window_left >= 0) keys.begin = std::max<std::int64_t>(0, begin + s.shift - p.window_left);
  if (p.window_right >= 0) keys.end = std::min(keys.end, end + s.shift + p.window_right);
  if (p.causal != DHYAN_CAUSAL_OFF) keys.end = std::min(keys.end, end + s.shift);
  return keys.begin < keys.end ? keys : core::KeyRange{0, 0};
}

// Whether causal or a window hides some of these keys from some query of [begin, end).
bool partly_hidden(const core::Problem& p, const core::Sequence& s, std::int64_t begin, std::int64_t end, core::KeyRange keys) {
  if (p.window_left >= 0 && keys.begin < end - 1 + s.shift - p.window_left) return true;
  if (p.window_right >= 0 && keys.end > begin + s.shift + p.window_right + 1) return true;
  return p.causal != DHYAN_CAUSAL_OFF && keys.end > begin + s.shift + 1;
}

void finish_row(const core::Problem& p, const core::Buffers& buffers, const SoftmaxKernels& softmax, std::int64_t b,
                std::int64_t n, std::int64_t token, const RowSum& sum, float* row) {
  const auto& o = p.out.strides;
  const auto& l = p.lse.strides;
  float factor = 1 / sum.total;
  if (sum.total == 0) {
    factor = 0;
    std::fill_n(row, round_up(p.value_head_dim, 16), 0.0f);
  }
  if (p.lse.present() || p.sink.present()) {
    double lse = softmax_lse(sum.highest, sum.total, sum.factor);
    if (p.sink.present()) {
      const double sink = static_cast<const float*>(buffers.sink)[n * p.sink.strides[0]];
      const double whole = add_exponentials(lse, sink);
      if (sum.total != 0) factor = static_cast<float>(std::exp(lse - whole) / sum.total);
      lse = whole;
    }
    if (p.lse.present()) {
      static_cast<float*>(buffers.lse)[b * l[0] + n * l[1] + token * l[2]] = static_cast<float>(lse);
    }
  }
  void* out = core::advance(buffers.out, p.dtype, b * o[0] + token * o[1] + n * o[2]);
  softmax.write(row, factor, static_cast<int>(p.value_head_dim), p.dtype, out);
}

void blank_row(const core::Problem& p, const core::Buffers& buffers, std::int64_t b, std::int64_t n, std::int64_t token) {
  const auto& o = p.out.strides;
  void* out = core::advance(buffers.out, p.dtype, b * o[0] + token * o[1] + n * o[2]);
  std::memset(out, 0, static_cast<std::size_t>(p.value_head_dim) * core::size_of(p.dtype));
  if (!p.lse.present()) return;
  const auto& l = p.lse.strides;
  static_cast<float*>(buffers.lse)[b * l[0] + n * l[1] + token * l[2]] = -std::numeric_limits<float>::infinity();
}

void blank_gaps(const core::Problem& p, const core::Buffers& buffers) {
  core::uncovered_rows(p, buffers, true, [&](std::int64_t b, std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      for (std::int64_t n = 0; n < p.query_heads; ++n) blank_row(p, buffers, b, n, token);
    }
  });
}

}  // namespace dhyan::cpu

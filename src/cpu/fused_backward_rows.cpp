// SPDX-License-Identifier: Apache-2.0
#include "cpu/fused_backward_rows.hpp"

#include <algorithm>
#include <cstring>

#include "core/convert.hpp"
#include "cpu/dispatch.hpp"
#include "cpu/target.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/fused_backward_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/load-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace dhyan::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using Bits = hn::RebindToUnsigned<D>;
using V = hn::Vec<D>;
using M = hn::Mask<D>;
constexpr int kLanes = static_cast<int>(HWY_MAX_BYTES / sizeof(float));

// e^x to 2 ulp; 0 under -87, e^88 above 88, NaN stays. Range reduction by ln 2 in two parts, then a polynomial of degree 5
// that is minimax on [-ln 2 / 2, ln 2 / 2].
HWY_INLINE V exponential(V x) {
  const D d;
  const hn::RebindToSigned<D> whole;
  const M tiny = hn::Lt(x, hn::Set(d, -87.0f));
  x = hn::Min(hn::Set(d, 88.0f), hn::Max(hn::Set(d, -87.0f), x));
  const auto n = hn::NearestInt(hn::Mul(x, hn::Set(d, 1.44269504088896341f)));
  const V multiple = hn::ConvertTo(d, n);
  V r = hn::NegMulAdd(multiple, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(multiple, hn::Set(d, -2.12194440e-4f), r);
  V p = hn::Set(d, 8.312501e-3f);
  p = hn::MulAdd(p, r, hn::Set(d, 4.1890331e-2f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.6667116e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 4.9999231e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  const V scaled = hn::BitCast(d, hn::Add(hn::BitCast(whole, p), hn::ShiftLeft<23>(n)));
  return hn::IfThenZeroElse(tiny, scaled);
}

// The nearest bf16, as a float.
HWY_INLINE V nearest_bf16(V x) {
  const D d;
  const Bits bits;
  const auto raw = hn::BitCast(bits, x);
  const auto odd = hn::And(hn::ShiftRight<16>(raw), hn::Set(bits, 1));
  const auto rounded = hn::And(hn::Add(raw, hn::Add(odd, hn::Set(bits, 0x7FFF))), hn::Set(bits, 0xFFFF0000));
  return hn::IfThenElse(hn::IsNaN(x), hn::BitCast(d, hn::Or(raw, hn::Set(bits, 0x400000))), hn::BitCast(d, rounded));
}

// The nearest f16, as a float: magnitudes from 65520 become infinity, those under 2^-14 multiples of 2^-24.
HWY_INLINE V nearest_f16(V x) {
  const D d;
  const Bits bits;
  const V magnitude = hn::Abs(x);
  const auto raw = hn::BitCast(bits, magnitude);
  const auto odd = hn::And(hn::ShiftRight<13>(raw), hn::Set(bits, 1));
  V value = hn::BitCast(d, hn::And(hn::Add(raw, hn::Add(odd, hn::Set(bits, 0xFFF))), hn::Set(bits, 0xFFFFE000)));
  const V half = hn::Set(d, 0.5f);
  value = hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, 0x1p-14f)), hn::Sub(hn::Add(magnitude, half), half), value);
  value = hn::IfThenElse(hn::Gt(value, hn::Set(d, 65504.0f)), hn::Inf(d), value);
  return hn::IfThenElse(hn::IsNaN(x), x, hn::CopySign(value, x));
}

HWY_INLINE V nearest(V x, dhyan_dtype dtype) {
  if (dtype == DHYAN_BF16) return nearest_bf16(x);
  if (dtype == DHYAN_F16) return nearest_f16(x);
  return x;
}

// The steps of one vector at column c. kPlain: neither softcap nor dropout nor rounding nor the logits' own gradient.
template <bool kPlain>
HWY_INLINE void step(const ScoreGradient& tile, std::int64_t at, V lse, V delta, V factor, M visible, bool all) {
  const D d;
  V weight = exponential(hn::MulSub(hn::Load(d, tile.scores + at), factor, lse));
  if (!all) weight = hn::IfThenElseZero(visible, weight);
  V kept = weight;
  if constexpr (!kPlain) {
    if (tile.keep) kept = hn::Mul(kept, hn::Load(d, tile.keep + at));
  }
  if (tile.gradients) {
    V gradient = hn::Load(d, tile.gradients + at);
    if constexpr (!kPlain) {
      if (tile.keep) gradient = hn::Mul(gradient, hn::Load(d, tile.keep + at));
    }
    gradient = hn::Mul(weight, hn::Sub(gradient, delta));
    if (!all) gradient = hn::IfThenElseZero(visible, gradient);
    if constexpr (!kPlain) {
      if (tile.logits) hn::Store(gradient, d, tile.logits + at);
      if (tile.slope) gradient = hn::Mul(gradient, hn::Load(d, tile.slope + at));
      if (!all) gradient = hn::IfThenElseZero(visible, gradient);
      gradient = nearest(gradient, tile.rounding);
    }
    hn::Store(gradient, d, tile.gradients + at);
  }
  if constexpr (!kPlain) kept = nearest(kept, tile.rounding);
  hn::Store(kept, d, tile.scores + at);
}

void clear(const ScoreGradient& tile, std::int64_t at, std::int64_t count) {
  const std::size_t bytes = sizeof(float) * static_cast<std::size_t>(count);
  std::memset(tile.scores + at, 0, bytes);
  if (tile.gradients) std::memset(tile.gradients + at, 0, bytes);
  if (tile.logits) std::memset(tile.logits + at, 0, bytes);
}

template <bool kPlain>
void score_gradient_rows(const ScoreGradient& tile) {
  const D d;
  const V factor = hn::Set(d, tile.factor);
  const int padded = (tile.columns + 15) / 16 * 16;
  for (int r = 0; r < tile.rows; ++r) {
    const std::int64_t row = r * tile.stride;
    const int begin = tile.begin[r], end = tile.end[r];
    if (begin >= end) {
      clear(tile, row, padded);
      continue;
    }
    const int first = begin / kLanes * kLanes;
    const int last = (end + kLanes - 1) / kLanes * kLanes;
    if (first > 0) clear(tile, row, first);
    const V lse = hn::Set(d, tile.lse[r]);
    const V delta = hn::Set(d, tile.delta[r]);
    int c = first;
    const auto edge = [&] {
      const V position = hn::Iota(d, static_cast<float>(c));
      const M visible = hn::And(hn::Ge(position, hn::Set(d, static_cast<float>(begin))),
                                hn::Lt(position, hn::Set(d, static_cast<float>(end))));
      step<kPlain>(tile, row + c, lse, delta, factor, visible, false);
      c += kLanes;
    };
    if (begin > first) edge();
    for (; c + kLanes <= end; c += kLanes) step<kPlain>(tile, row + c, lse, delta, factor, M(), true);
    if (c < last) edge();
    if (c < padded) clear(tile, row + c, padded - c);
  }
}

void score_gradient(const ScoreGradient& tile) {
  const bool plain = !tile.slope && !tile.keep && !tile.logits && tile.rounding == DHYAN_F32;
  plain ? score_gradient_rows<true>(tile) : score_gradient_rows<false>(tile);
}

template <class T, class Load>
HWY_INLINE float dot_of(const T* a, const T* b, std::int64_t n, const Load& load) {
  const D d;
  V sum0 = hn::Zero(d), sum1 = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    sum0 = hn::MulAdd(load(a + i), load(b + i), sum0);
    sum1 = hn::MulAdd(load(a + i + kLanes), load(b + i + kLanes), sum1);
  }
  if (i < n) {
    HWY_ALIGN T rest[4][kLanes] = {};
    const auto count = static_cast<std::size_t>(n - i);
    const std::size_t low = std::min<std::size_t>(count, kLanes);
    std::memcpy(rest[0], a + i, sizeof(T) * low);
    std::memcpy(rest[1], b + i, sizeof(T) * low);
    std::memcpy(rest[2], a + i + low, sizeof(T) * (count - low));
    std::memcpy(rest[3], b + i + low, sizeof(T) * (count - low));
    sum0 = hn::MulAdd(load(rest[0]), load(rest[1]), sum0);
    sum1 = hn::MulAdd(load(rest[2]), load(rest[3]), sum1);
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)));
}

float dot(const void* a, const void* b, dhyan_dtype dtype, std::int64_t n) {
  switch (dtype) {
    case DHYAN_F32:
      return dot_of(static_cast<const float*>(a), static_cast<const float*>(b), n, load_f32);
    case DHYAN_F16:
      return dot_of(static_cast<const std::uint16_t*>(a), static_cast<const std::uint16_t*>(b), n, load_f16);
    default:
      return dot_of(static_cast<const std::uint16_t*>(a), static_cast<const std::uint16_t*>(b), n, load_bf16);
  }
}

float sum(const float* from, std::int64_t n) {
  const D d;
  V total = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) total = hn::Add(total, hn::LoadU(d, from + i));
  float rest = 0;
  for (; i < n; ++i) rest += from[i];
  return hn::GetLane(hn::SumOfLanes(d, total)) + rest;
}

void add(const float* initial, const float* from, float* to, std::int64_t n) {
  const D d;
  if (!initial) {
    std::memcpy(to, from, sizeof(float) * static_cast<std::size_t>(n));
    return;
  }
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) hn::StoreU(hn::Add(hn::LoadU(d, initial + i), hn::LoadU(d, from + i)), d, to + i);
  for (; i < n; ++i) to[i] = initial[i] + from[i];
}

// The sixteen bits of values that nearest_bf16 or nearest_f16 has made exact.
HWY_INLINE hn::Vec<Bits> half_bits(V x, dhyan_dtype dtype) {
  const D d;
  const Bits bits;
  const auto raw = hn::BitCast(bits, x);
  if (dtype == DHYAN_BF16) return hn::ShiftRight<16>(raw);
  const auto sign = hn::And(hn::ShiftRight<16>(raw), hn::Set(bits, 0x8000));
  const V magnitude = hn::Abs(x);
  const auto normal = hn::ShiftRight<13>(hn::Sub(hn::BitCast(bits, magnitude), hn::Set(bits, 112u << 23)));
  const auto small = hn::Sub(hn::BitCast(bits, hn::Add(magnitude, hn::Set(d, 0.5f))), hn::Set(bits, 0x3F000000));
  auto half = hn::IfThenElse(hn::RebindMask(bits, hn::Lt(magnitude, hn::Set(d, 0x1p-14f))), small, normal);
  half = hn::IfThenElse(hn::RebindMask(bits, hn::Gt(magnitude, hn::Set(d, 65504.0f))), hn::Set(bits, 0x7C00), half);
  half = hn::IfThenElse(hn::RebindMask(bits, hn::IsNaN(x)), hn::Set(bits, 0x7E00), half);
  return hn::Or(half, sign);
}

void write(const float* from, float factor, void* to, dhyan_dtype dtype, std::int64_t n) {
  const D d;
  const V times = hn::Set(d, factor);
  std::int64_t i = 0;
  if (dtype == DHYAN_F32) {
    auto* out = static_cast<float*>(to);
    for (; i + kLanes <= n; i += kLanes) hn::StoreU(hn::Mul(hn::LoadU(d, from + i), times), d, out + i);
    for (; i < n; ++i) out[i] = from[i] * factor;
    return;
  }
  const hn::RebindToSigned<D> whole;
  const hn::Rebind<std::uint16_t, D> half;
  auto* out = static_cast<std::uint16_t*>(to);
  for (; i + kLanes <= n; i += kLanes) {
    const V value = nearest(hn::Mul(hn::LoadU(d, from + i), times), dtype);
    hn::StoreU(hn::DemoteTo(half, hn::BitCast(whole, half_bits(value, dtype))), half, out + i);
  }
  for (; i < n; ++i) core::store(to, dtype, i, static_cast<double>(from[i] * factor));
}

}  // namespace

// Highway's dispatch table needs a name it can see.
const BackwardRows& backward_rows_of_target() {
  static constexpr BackwardRows kRows = {score_gradient, dot, sum, add, write};
  return kRows;
}
}  // namespace HWY_NAMESPACE
}  // namespace dhyan::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dhyan::cpu {
HWY_EXPORT(backward_rows_of_target);

const BackwardRows& backward_rows_on(std::int64_t targets) {
  return pick(HWY_DISPATCH_TABLE(backward_rows_of_target), targets)();
}

const BackwardRows& backward_rows() { return backward_rows_on(highway_targets()); }

}  // namespace dhyan::cpu
#endif

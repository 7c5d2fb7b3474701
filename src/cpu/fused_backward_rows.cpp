// SPDX-License-Identifier: Apache-2.0
#include "cpu/fused_backward_rows.hpp"

#include <algorithm>
#include <cstring>

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

// e^x to 2 ulp near 0 and 2^-22 at worst; 0 under -87, e^88 above 88, NaN stays. Range reduction by ln 2, which a float holds
// to 2^-28, then a polynomial of degree 5 that is minimax on [-ln 2 / 2, ln 2 / 2].
HWY_INLINE V exponential(V x) {
  const D d;
  const Bits bits;
  const V shift = hn::Set(d, 0x1.8p23f);  // added, it leaves the nearest integer in the lowest bits
  const M tiny = hn::Lt(x, hn::Set(d, -87.0f));
  x = hn::Min(hn::Set(d, 88.0f), hn::Max(hn::Set(d, -87.0f), x));
  const V shifted = hn::MulAdd(x, hn::Set(d, 1.44269504088896341f), shift);
  const V r = hn::NegMulAdd(hn::Sub(shifted, shift), hn::Set(d, 0.693147180559945309f), x);
  V p = hn::Set(d, 8.312501e-3f);
  p = hn::MulAdd(p, r, hn::Set(d, 4.1890331e-2f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.6667116e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 4.9999231e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  const auto power = hn::ShiftLeft<23>(hn::BitCast(bits, shifted));
  return hn::IfThenZeroElse(tiny, hn::BitCast(d, hn::Add(hn::BitCast(bits, p), power)));
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

// One row of a tile.
struct Row {
  float *scores, *gradients, *logits;
  const float *slope, *keep;
  V lse, delta, factor;
  dhyan_dtype rounding;
};

// The steps of one vector at column c. kPlain: nothing but weights and their gradients.
template <bool kPlain>
HWY_INLINE void step(const Row& row, int c, M visible, bool all) {
  const D d;
  V weight = exponential(hn::MulSub(hn::Load(d, row.scores + c), row.factor, row.lse));
  if (!all) weight = hn::IfThenElseZero(visible, weight);
  V kept = weight;
  if constexpr (!kPlain) {
    if (row.keep) kept = hn::Mul(kept, hn::Load(d, row.keep + c));
  }
  if (kPlain || row.gradients) {
    V gradient = hn::Load(d, row.gradients + c);
    if constexpr (!kPlain) {
      if (row.keep) gradient = hn::Mul(gradient, hn::Load(d, row.keep + c));
    }
    gradient = hn::Mul(weight, hn::Sub(gradient, row.delta));
    if (!all) gradient = hn::IfThenElseZero(visible, gradient);
    if constexpr (!kPlain) {
      if (row.logits) hn::Store(gradient, d, row.logits + c);
      if (row.slope) gradient = hn::Mul(gradient, hn::Load(d, row.slope + c));
      if (!all) gradient = hn::IfThenElseZero(visible, gradient);
      gradient = nearest(gradient, row.rounding);
    }
    hn::Store(gradient, d, row.gradients + c);
  }
  if constexpr (!kPlain) kept = nearest(kept, row.rounding);
  hn::Store(kept, d, row.scores + c);
}

void clear(const Row& row, int begin, int end) {
  if (begin >= end) return;
  const std::size_t bytes = sizeof(float) * static_cast<std::size_t>(end - begin);
  std::memset(row.scores + begin, 0, bytes);
  if (row.gradients) std::memset(row.gradients + begin, 0, bytes);
  if (row.logits) std::memset(row.logits + begin, 0, bytes);
}

template <bool kPlain>
void score_gradient_rows(const ScoreGradient& tile) {
  const D d;
  const int padded = (tile.columns + 15) / 16 * 16;
  const auto moved = [](auto* from, std::int64_t by) { return from ? from + by : nullptr; };
  for (int r = 0; r < tile.rows; ++r) {
    const std::int64_t at = r * tile.stride;
    const Row row = {tile.scores + at,          moved(tile.gradients, at), moved(tile.logits, at),
                     moved(tile.slope, at),     moved(tile.keep, at),      hn::Set(d, tile.lse[r]),
                     hn::Set(d, tile.delta[r]), hn::Set(d, tile.factor),   tile.rounding};
    const int begin = tile.begin[r], end = tile.end[r];
    if (begin >= end) {
      clear(row, 0, padded);
      continue;
    }
    int c = begin / kLanes * kLanes;
    clear(row, 0, c);
    const auto edge = [&] {
      const V position = hn::Iota(d, static_cast<float>(c));
      const M visible = hn::And(hn::Ge(position, hn::Set(d, static_cast<float>(begin))),
                                hn::Lt(position, hn::Set(d, static_cast<float>(end))));
      step<kPlain>(row, c, visible, false);
      c += kLanes;
    };
    if (begin > c) edge();
    for (; c + kLanes <= end; c += kLanes) step<kPlain>(row, c, M(), true);
    if (c < end) edge();
    clear(row, c, padded);
  }
}

void score_gradient(const ScoreGradient& tile) {
  const bool plain = tile.gradients && !tile.slope && !tile.keep && !tile.logits && tile.rounding == DHYAN_F32;
  plain ? score_gradient_rows<true>(tile) : score_gradient_rows<false>(tile);
}

template <class T, V (*load)(const T*)>
HWY_INLINE float dot_of(const T* a, const T* b, std::int64_t n) {
  const D d;
  V sum0 = hn::Zero(d), sum1 = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    sum0 = hn::MulAdd(load(a + i), load(b + i), sum0);
    sum1 = hn::MulAdd(load(a + i + kLanes), load(b + i + kLanes), sum1);
  }
  for (; i < n; i += kLanes) {
    HWY_ALIGN T rest[2][kLanes] = {};
    const std::size_t bytes = sizeof(T) * static_cast<std::size_t>(std::min<std::int64_t>(n - i, kLanes));
    std::memcpy(rest[0], a + i, bytes);
    std::memcpy(rest[1], b + i, bytes);
    sum0 = hn::MulAdd(load(rest[0]), load(rest[1]), sum0);
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)));
}

template <class T, V (*load)(const T*)>
void dots_of(const void* a, std::int64_t a_stride, const void* b, std::int64_t b_stride, std::int64_t rows, std::int64_t n,
             float* sums) {
  for (std::int64_t r = 0; r < rows; ++r)
    sums[r] = dot_of<T, load>(static_cast<const T*>(a) + r * a_stride, static_cast<const T*>(b) + r * b_stride, n);
}

void dot(const void* a, std::int64_t a_stride, const void* b, std::int64_t b_stride, dhyan_dtype dtype, std::int64_t rows,
         std::int64_t n, float* sums) {
  switch (dtype) {
    case DHYAN_F32:
      return dots_of<float, load_f32>(a, a_stride, b, b_stride, rows, n, sums);
    case DHYAN_F16:
      return dots_of<std::uint16_t, load_f16>(a, a_stride, b, b_stride, rows, n, sums);
    default:
      return dots_of<std::uint16_t, load_bf16>(a, a_stride, b, b_stride, rows, n, sums);
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

void add(const float* from, std::int64_t stride, float* to, std::int64_t to_stride, std::int64_t rows, std::int64_t n,
         bool accumulate) {
  const D d;
  for (std::int64_t r = 0; r < rows; ++r, from += stride, to += to_stride) {
    if (!accumulate) {
      std::memcpy(to, from, sizeof(float) * static_cast<std::size_t>(n));
      continue;
    }
    std::int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) hn::StoreU(hn::Add(hn::LoadU(d, to + i), hn::LoadU(d, from + i)), d, to + i);
    for (; i < n; ++i) to[i] += from[i];
  }
}

using Half = hn::Rebind<std::uint16_t, D>;

// Calls body(i, vector of from[i...], how many of its elements there are) for all of a row.
template <class Body>
HWY_INLINE void vectors_of(const float* from, std::int64_t n, const Body& body) {
  const D d;
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, hn::LoadU(d, from + i), kLanes);
  if (i == n) return;
  HWY_ALIGN float rest[kLanes] = {};
  std::memcpy(rest, from + i, sizeof(float) * static_cast<std::size_t>(n - i));
  body(i, hn::Load(d, rest), static_cast<int>(n - i));
}

HWY_INLINE hn::Vec<Half> load_halves(const std::uint16_t* from, int count) {
  const Half half;
  if (count == kLanes) return hn::LoadU(half, from);
  HWY_ALIGN std::uint16_t rest[kLanes] = {};
  std::memcpy(rest, from, sizeof(std::uint16_t) * static_cast<std::size_t>(count));
  return hn::Load(half, rest);
}

HWY_INLINE void store_halves(hn::Vec<Bits> lower_bits, std::uint16_t* to, int count) {
  const Half half;
  const auto halves = hn::TruncateTo(half, lower_bits);
  if (count == kLanes) return hn::StoreU(halves, half, to);
  HWY_ALIGN std::uint16_t rest[kLanes];
  hn::Store(halves, half, rest);
  std::memcpy(to, rest, sizeof(std::uint16_t) * static_cast<std::size_t>(count));
}

HWY_INLINE V join(const std::uint16_t* upper, const std::uint16_t* lower, int count) {
  const Bits bits;
  const auto high = hn::ShiftLeft<16>(hn::PromoteTo(bits, load_halves(upper, count)));
  return hn::BitCast(D(), hn::Or(high, hn::PromoteTo(bits, load_halves(lower, count))));
}

void add_halves(const float* from, std::int64_t stride, std::uint16_t* upper, std::int64_t upper_stride, std::uint16_t* lower,
                std::int64_t lower_stride, std::int64_t rows, std::int64_t n, bool accumulate) {
  const Bits bits;
  for (std::int64_t r = 0; r < rows; ++r, from += stride, upper += upper_stride, lower += lower_stride) {
    vectors_of(from, n, [&](std::int64_t i, V value, int count) {
      if (accumulate) value = hn::Add(join(upper + i, lower + i, count), value);
      const auto raw = hn::BitCast(bits, value);
      store_halves(hn::ShiftRight<16>(raw), upper + i, count);
      store_halves(raw, lower + i, count);
    });
  }
}

// The sixteen bits of the nearest bf16 or f16, in the lower half of each lane.
HWY_INLINE hn::Vec<Bits> half_bits(V x, dhyan_dtype dtype) {
  const D d;
  const Bits bits;
  if (dtype == DHYAN_BF16) return hn::ShiftRight<16>(hn::BitCast(bits, nearest_bf16(x)));
  x = nearest_f16(x);
  const auto raw = hn::BitCast(bits, x);
  const auto sign = hn::And(hn::ShiftRight<16>(raw), hn::Set(bits, 0x8000));
  const V magnitude = hn::Abs(x);
  const auto normal = hn::ShiftRight<13>(hn::Sub(hn::BitCast(bits, magnitude), hn::Set(bits, 112u << 23)));
  const auto small = hn::Sub(hn::BitCast(bits, hn::Add(magnitude, hn::Set(d, 0.5f))), hn::Set(bits, 0x3F000000));
  auto half = hn::IfThenElse(hn::RebindMask(bits, hn::Lt(magnitude, hn::Set(d, 0x1p-14f))), small, normal);
  half = hn::IfThenElse(hn::RebindMask(bits, hn::Gt(magnitude, hn::Set(d, 65504.0f))), hn::Set(bits, 0x7C00), half);
  half = hn::IfThenElse(hn::RebindMask(bits, hn::IsNaN(x)), hn::Set(bits, 0x7E00), half);
  return hn::Or(half, sign);
}

void finish_halves(const float* from, std::int64_t stride, float factor, std::uint16_t* upper, std::int64_t upper_stride,
                   const std::uint16_t* lower, std::int64_t lower_stride, dhyan_dtype dtype, std::int64_t rows,
                   std::int64_t n) {
  const V times = hn::Set(D(), factor);
  for (std::int64_t r = 0; r < rows; ++r, from += stride, upper += upper_stride, lower += lower_stride) {
    vectors_of(from, n, [&](std::int64_t i, V value, int count) {
      value = hn::Mul(hn::Add(join(upper + i, lower + i, count), value), times);
      store_halves(half_bits(value, dtype), upper + i, count);
    });
  }
}

void write(const float* from, std::int64_t stride, float factor, void* to, std::int64_t to_stride, dhyan_dtype dtype,
           std::int64_t rows, std::int64_t n) {
  const D d;
  const V times = hn::Set(d, factor);
  if (dtype == DHYAN_F32) {
    auto* out = static_cast<float*>(to);
    for (std::int64_t r = 0; r < rows; ++r, from += stride, out += to_stride) {
      std::int64_t i = 0;
      for (; i + kLanes <= n; i += kLanes) hn::StoreU(hn::Mul(hn::LoadU(d, from + i), times), d, out + i);
      for (; i < n; ++i) out[i] = from[i] * factor;
    }
    return;
  }
  auto* out = static_cast<std::uint16_t*>(to);
  for (std::int64_t r = 0; r < rows; ++r, from += stride, out += to_stride) {
    vectors_of(from, n, [&](std::int64_t i, V value, int count) {
      store_halves(half_bits(hn::Mul(value, times), dtype), out + i, count);
    });
  }
}

}  // namespace

// Highway's dispatch table needs a name it can see.
const BackwardRows& backward_rows_of_target() {
  static constexpr BackwardRows kRows = {score_gradient, dot, sum, add, add_halves, finish_halves, write};
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

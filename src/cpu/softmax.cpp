// SPDX-License-Identifier: Apache-2.0
#include "cpu/softmax.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include "cpu/dispatch.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/softmax.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/exp2-inl.hpp"
#include "cpu/round-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace dhyan::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));
constexpr float kNone = -std::numeric_limits<float>::infinity();

// Stores one vector of weights in their form.
template <WeightForm kForm>
HWY_INLINE void store(V p, float* row, std::uint16_t* packed) {
  const D d;
  if constexpr (kForm == WeightForm::f32) hn::Store(p, d, row);
  if constexpr (kForm == WeightForm::f32_f16) hn::Store(round_f16(d, p), d, row);
  if constexpr (kForm == WeightForm::f32_bf16) hn::Store(round_bf16(d, p), d, row);
  if constexpr (kForm == WeightForm::bf16) {
#if HWY_TARGET == HWY_AVX3
    store_bf16_by_hardware(p, packed);  // whoever asks for this form has AVX-512 BF16
#else
    store_bf16(d, p, packed);
#endif
  }
}

// The last, partial vector of a row with -inf past its columns.
HWY_INLINE V last_of(const float* row, int columns) {
  const D d;
  return hn::IfThenElse(hn::FirstN(d, static_cast<std::size_t>(columns)), hn::Load(d, row), hn::Set(d, kNone));
}

HWY_INLINE float highest_of(const float* row, int columns) {
  const D d;
  V high[4] = {hn::Set(d, kNone), hn::Set(d, kNone), hn::Set(d, kNone), hn::Set(d, kNone)};
  int c = 0;
  for (; c + 4 * kLanes <= columns; c += 4 * kLanes) {
    for (int i = 0; i < 4; ++i) high[i] = hn::Max(high[i], hn::Load(d, row + c + i * kLanes));
  }
  for (; c + kLanes <= columns; c += kLanes) high[0] = hn::Max(high[0], hn::Load(d, row + c));
  if (c < columns) high[1] = hn::Max(high[1], last_of(row + c, columns - c));
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(hn::Max(high[0], high[1]), hn::Max(high[2], high[3]))));
}

// Turns one row into weights and stores the sums of its lanes. The highest logit is subtracted before anything is multiplied:
// no finite logit overflows, and the highest weight is exactly 1.
template <WeightForm kForm>
HWY_INLINE void weigh(float* row, std::uint16_t* packed, int columns, float factor, float shift, float* lane_sums) {
  const D d;
  const V factors = hn::Set(d, factor), shifts = hn::Set(d, shift);
  const auto weight = [&](V x) HWY_ATTR { return exp2_of(d, hn::Mul(hn::Sub(x, shifts), factors)); };
  V sums[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  int c = 0;
  for (; c + 4 * kLanes <= columns; c += 4 * kLanes) {
    V p[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) p[i] = weight(hn::Load(d, row + c + i * kLanes));
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      sums[i] = hn::Add(sums[i], p[i]);
      store<kForm>(p[i], row + c + i * kLanes, packed + c + i * kLanes);
    }
  }
  for (; c < columns; c += kLanes) {
    const V p = weight(columns - c < kLanes ? last_of(row + c, columns - c) : hn::Load(d, row + c));
    sums[0] = hn::Add(sums[0], p);
    store<kForm>(p, row + c, packed + c);
  }
  hn::Store(hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3])), d, lane_sums);
}

// Rows are taken in groups: what crosses lanes has a long latency, and rows hide one another's.
constexpr int kGroup = 8;

// What a group's rows go through between their highest logits and their weights.
struct Group {
  HWY_ALIGN float before[kGroup];  // highest so far
  HWY_ALIGN float now[kGroup];     // the tile's, then with what came before
  HWY_ALIGN float shift[kGroup];   // what the exponent subtracts
  HWY_ALIGN float keep[kGroup];    // what earlier sums are multiplied by
};

void advance(Group& g, float factor) {
  const hn::CappedTag<float, kGroup> d;
  const auto factors = hn::Set(d, factor), none = hn::Set(d, kNone);
  for (int r = 0; r < kGroup; r += static_cast<int>(hn::Lanes(d))) {
    const auto before = hn::Load(d, g.before + r);
    const auto now = hn::Max(hn::Load(d, g.now + r), before);  // x86 gives the second operand where one is NaN
    const auto shift = hn::IfThenElse(hn::Eq(now, none), hn::Zero(d), now);
    const auto keep = exp2_of(d, hn::Mul(hn::Sub(before, now), factors));
    hn::Store(now, d, g.now + r);
    hn::Store(shift, d, g.shift + r);
    hn::Store(hn::IfThenElse(hn::Eq(before, now), hn::Set(d, 1.0f), keep), d, g.keep + r);
  }
}

template <WeightForm kForm>
void tile_of(const WeightRows& w, float factor, float* highest, float* sum, float* rescale) {
  for (int first = 0; first < w.count; first += kGroup) {
    const int count = std::min(kGroup, w.count - first);
    const auto row = [&](int r) { return w.rows + (first + r) * w.stride; };
    Group g;
    for (int r = 0; r < kGroup; ++r) {
      g.before[r] = r < count ? highest[first + r] : 0;
      g.now[r] = r < count ? highest_of(row(r), w.columns) : 0;
    }
    advance(g, factor);
    HWY_ALIGN float lane_sums[kGroup][kLanes];
    for (int r = 0; r < count; ++r) {
      std::uint16_t* packed = kForm == WeightForm::bf16 ? w.packed + (first + r) * w.packed_stride : nullptr;
      weigh<kForm>(row(r), packed, w.columns, factor, g.shift[r], lane_sums[r]);
    }
    for (int r = 0; r < count; ++r) {
      const float total = hn::GetLane(hn::SumOfLanes(D(), hn::Load(D(), lane_sums[r])));
      highest[first + r] = g.now[r];
      sum[first + r] = sum[first + r] * g.keep[r] + total;
      rescale[first + r] = g.keep[r];
    }
  }
}

void tile(const WeightRows& w, float factor, float* highest, float* sum, float* rescale) {
  switch (w.form) {
    case WeightForm::f32:
      return tile_of<WeightForm::f32>(w, factor, highest, sum, rescale);
    case WeightForm::f32_f16:
      return tile_of<WeightForm::f32_f16>(w, factor, highest, sum, rescale);
    case WeightForm::f32_bf16:
      return tile_of<WeightForm::f32_bf16>(w, factor, highest, sum, rescale);
    case WeightForm::bf16:
      return tile_of<WeightForm::bf16>(w, factor, highest, sum, rescale);
  }
}

template <WeightForm kForm>
void round_of(const WeightRows& w) {
  for (int r = 0; r < w.count; ++r) {
    float* row = w.rows + r * w.stride;
    std::uint16_t* packed = kForm == WeightForm::bf16 ? w.packed + r * w.packed_stride : nullptr;
    for (int c = 0; c < w.columns; c += kLanes) store<kForm>(hn::Load(D(), row + c), row + c, packed + c);
  }
}

void round(const WeightRows& w) {
  switch (w.form) {
    case WeightForm::f32:
      return;
    case WeightForm::f32_f16:
      return round_of<WeightForm::f32_f16>(w);
    case WeightForm::f32_bf16:
      return round_of<WeightForm::f32_bf16>(w);
    case WeightForm::bf16:
      return round_of<WeightForm::bf16>(w);
  }
}

HWY_INLINE void scale_row(float* row, int columns, float factor) {
  const D d;
  const V factors = hn::Set(d, factor);
  for (int c = 0; c < columns; c += kLanes) hn::Store(hn::Mul(hn::Load(d, row + c), factors), d, row + c);
}

void rescale(float* rows, std::int64_t stride, int count, int columns, const float* factors) {
  for (int r = 0; r < count; ++r) {
    if (factors[r] != 1) scale_row(rows + r * stride, columns, factors[r]);
  }
}

void scale(float* rows, std::int64_t stride, int count, int columns, float factor) {
  for (int r = 0; r < count; ++r) scale_row(rows + r * stride, columns, factor);
}

template <class T, class Store>
HWY_INLINE void write_as(const float* row, float factor, int columns, T* out, const Store& store) {
  const D d;
  const V factors = hn::Set(d, factor);
  int c = 0;
  for (; c + kLanes <= columns; c += kLanes) store(hn::Mul(hn::Load(d, row + c), factors), out + c);
  if (c == columns) return;
  HWY_ALIGN T rest[kLanes];
  store(hn::Mul(hn::Load(d, row + c), factors), rest);
  std::memcpy(out + c, rest, sizeof(T) * static_cast<std::size_t>(columns - c));
}

void write(const float* row, float factor, int columns, dhyan_dtype dtype, void* out) {
  const D d;
  switch (dtype) {
    case DHYAN_F32:
      return write_as(row, factor, columns, static_cast<float*>(out), [](V x, float* to) HWY_ATTR { hn::StoreU(x, D(), to); });
    case DHYAN_F16:
      return write_as(row, factor, columns, static_cast<std::uint16_t*>(out),
                      [d](V x, std::uint16_t* to) HWY_ATTR { store_f16(d, x, to); });
    default:
      return write_as(row, factor, columns, static_cast<std::uint16_t*>(out),
                      [d](V x, std::uint16_t* to) HWY_ATTR { store_bf16(d, x, to); });
  }
}

}  // namespace

const SoftmaxKernels& softmax_kernels_of_target() {
  static constexpr SoftmaxKernels kernels = {tile, round, rescale, scale, write};
  return kernels;
}
}  // namespace HWY_NAMESPACE
}  // namespace dhyan::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dhyan::cpu {
HWY_EXPORT(softmax_kernels_of_target);

double softmax_lse(float highest, float sum, float factor) {
  if (sum == 0) return -std::numeric_limits<double>::infinity();
  return static_cast<double>(highest) * factor * std::numbers::ln2 + std::log(static_cast<double>(sum));
}

float softmax_rescale(float before, float now, float factor) { return before == now ? 1 : std::exp2((before - now) * factor); }

double add_exponentials(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();  // std::max and std::min may drop it
  const double high = std::max(a, b), low = std::min(a, b);
  if (low == -std::numeric_limits<double>::infinity()) return high;
  return high + std::log1p(std::exp(low - high));
}

const SoftmaxKernels& softmax_kernels_on(std::int64_t targets) {
  return pick(HWY_DISPATCH_TABLE(softmax_kernels_of_target), targets)();
}

}  // namespace dhyan::cpu
#endif

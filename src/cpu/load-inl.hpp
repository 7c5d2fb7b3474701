// SPDX-License-Identifier: Apache-2.0
// Reading rows of any element type as f32, for files compiled once per Highway target.
#include <cstdint>
#include <cstring>

#include "cpu/engine.hpp"

#if defined(DHYAN_CPU_LOAD_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef DHYAN_CPU_LOAD_INL_HPP
#undef DHYAN_CPU_LOAD_INL_HPP
#else
#define DHYAN_CPU_LOAD_INL_HPP
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace dhyan::cpu {
namespace HWY_NAMESPACE {
namespace {

using F32 = hwy::HWY_NAMESPACE::ScalableTag<float>;
using F32Vector = hwy::HWY_NAMESPACE::Vec<F32>;

HWY_INLINE F32Vector load_f32(const float* from) { return hwy::HWY_NAMESPACE::LoadU(F32(), from); }

HWY_INLINE F32Vector load_bf16(const std::uint16_t* from) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::Rebind<std::uint16_t, F32> half;
  const hn::RebindToUnsigned<F32> whole;
  return hn::BitCast(F32(), hn::ShiftLeft<16>(hn::PromoteTo(whole, hn::LoadU(half, from))));
}

// The magnitude's bits moved into a float's place are the value times 2^-112, subnormals included.
HWY_INLINE F32Vector load_f16(const std::uint16_t* from) {
  namespace hn = hwy::HWY_NAMESPACE;
  const F32 d;
  const hn::Rebind<std::uint16_t, F32> half;
  const hn::RebindToUnsigned<F32> whole;
  const auto bits = hn::PromoteTo(whole, hn::LoadU(half, from));
  const auto magnitude = hn::ShiftLeft<13>(hn::And(bits, hn::Set(whole, 0x7FFF)));
  const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(whole, 0x8000)));
  const auto value = hn::BitCast(whole, hn::Mul(hn::BitCast(d, magnitude), hn::Set(d, 0x1p112f)));
  const auto special = hn::IfThenElseZero(hn::Gt(magnitude, hn::Set(whole, 0xF7FFFFF)), hn::Set(whole, 0x7F800000));
  return hn::BitCast(d, hn::Or(hn::Or(value, special), sign));
}

// Elements [0, count) of `from` times factor, then zeros up to `padded`; nothing past count is read. `to` holds `padded`.
template <class T, class Load>
HWY_INLINE void widen(const T* from, float factor, int count, int padded, float* to, const Load& load) {
  namespace hn = hwy::HWY_NAMESPACE;
  const F32 d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  const auto times = hn::Set(d, factor);
  int i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(hn::Mul(load(from + i), times), d, to + i);
  if (i == padded) return;
  HWY_ALIGN T rest[HWY_MAX_BYTES / sizeof(float)] = {};
  HWY_ALIGN float wide[HWY_MAX_BYTES / sizeof(float)];
  std::memcpy(rest, from + i, sizeof(T) * static_cast<std::size_t>(count - i));
  hn::Store(hn::Mul(load(rest), times), d, wide);
  for (; i < padded; i += lanes) {
    std::memcpy(to + i, wide, sizeof(float) * static_cast<std::size_t>(HWY_MIN(lanes, padded - i)));
    hn::Store(hn::Zero(d), d, wide);
  }
}

inline const void* at(const Source& source, std::int64_t row, std::int64_t column) {
  const std::int64_t size = source.dtype == DHYAN_F32 ? 4 : 2;
  return static_cast<const std::byte*>(source.data) + (row * source.stride + column) * size;
}

// Row `row` of the source, `count` elements, as f32 with zeros up to `padded`.
inline void widen_row(const Source& source, std::int64_t row, int count, int padded, float* to) {
  const void* from = at(source, row, 0);
  if (count < 0) count = 0;
  switch (source.dtype) {
    case DHYAN_F32:
      return widen(static_cast<const float*>(from), source.factor, count, padded, to, load_f32);
    case DHYAN_F16:
      return widen(static_cast<const std::uint16_t*>(from), source.factor, count, padded, to, load_f16);
    default:
      return widen(static_cast<const std::uint16_t*>(from), source.factor, count, padded, to, load_bf16);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace dhyan::cpu
HWY_AFTER_NAMESPACE();
#endif

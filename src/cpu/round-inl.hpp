// SPDX-License-Identifier: Apache-2.0
// Rounding f32 to 16-bit types, to nearest even, for files compiled once per Highway target.
#include <cstdint>

#if defined(DHYAN_CPU_ROUND_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef DHYAN_CPU_ROUND_INL_HPP
#undef DHYAN_CPU_ROUND_INL_HPP
#else
#define DHYAN_CPU_ROUND_INL_HPP
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace dhyan::cpu {
namespace HWY_NAMESPACE {
namespace {

// The bits of x rounded to bf16, still in the upper half of each lane; the lower half is zero. A NaN stays one.
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V round_bf16(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToUnsigned<D> whole;
  const auto bits = hn::BitCast(whole, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(whole, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(whole, 0x7FFF)));
  const auto quiet = hn::Or(bits, hn::Set(whole, 0x400000));
  const auto chosen = hn::IfThenElse(hn::RebindMask(whole, hn::IsNaN(x)), quiet, rounded);
  return hn::BitCast(d, hn::And(chosen, hn::Set(whole, 0xFFFF0000)));
}

// For processors with AVX512_BF16 only: one instruction, which takes subnormals for zero. Highway's AVX3 does not reach it.
#if HWY_TARGET == HWY_AVX3
HWY_INLINE void store_bf16_by_hardware(hwy::HWY_NAMESPACE::Vec512<float> x, std::uint16_t* to) {
  __m256i halves;
  __asm__("vcvtneps2bf16 %1, %0" : "=v"(halves) : "v"(x.raw));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), halves);
}
#endif

template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE void store_bf16(D d, V x, std::uint16_t* to) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToSigned<D> whole;
  const hn::Rebind<std::uint16_t, D> half;
  const hn::RebindToUnsigned<D> bits;
  const auto upper = hn::ShiftRight<16>(hn::BitCast(bits, round_bf16(d, x)));
  hn::StoreU(hn::DemoteTo(half, hn::BitCast(whole, upper)), half, to);
}

// As core::to_float16: three cases by magnitude.
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE void store_f16(D d, V x, std::uint16_t* to) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToSigned<D> whole;
  const hn::Rebind<std::uint16_t, D> half;
  const auto bits = hn::BitCast(whole, x);
  const auto magnitude = hn::And(bits, hn::Set(whole, 0x7FFFFFFF));
  const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(whole, 0x8000));
  const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(whole, 1));
  const auto normal = hn::ShiftRight<13>(hn::Add(hn::Sub(magnitude, hn::Set(whole, 0x38000000 - 0xFFF)), odd));
  const auto tiny =
      hn::Sub(hn::BitCast(whole, hn::Add(hn::BitCast(d, magnitude), hn::Set(d, 0.5f))), hn::Set(whole, 0x3F000000));
  const auto nan = hn::Or(hn::Set(whole, 0x7E00), hn::And(hn::ShiftRight<13>(magnitude), hn::Set(whole, 0x3FF)));
  auto result = hn::IfThenElse(hn::Lt(magnitude, hn::Set(whole, 0x38800000)), tiny, normal);
  result = hn::IfThenElse(hn::Lt(magnitude, hn::Set(whole, 0x47800000)), result, hn::Set(whole, 0x7C00));
  result = hn::IfThenElse(hn::Gt(magnitude, hn::Set(whole, 0x7F800000)), nan, result);
  hn::StoreU(hn::DemoteTo(half, hn::Or(result, sign)), half, to);
}

// x of [0, 2^15) rounded to what an f16 holds: below 2^-14 to multiples of 2^-24, else to 11 bits.
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V round_f16(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToUnsigned<D> whole;
  const auto bits = hn::BitCast(whole, x);
  const auto odd = hn::And(hn::ShiftRight<13>(bits), hn::Set(whole, 1));
  const auto rounded = hn::And(hn::Add(bits, hn::Add(odd, hn::Set(whole, 0xFFF))), hn::Set(whole, 0xFFFFE000));
  const auto half = hn::Set(d, 0.5f);
  const auto tiny = hn::Sub(hn::Add(x, half), half);
  const auto result = hn::IfThenElse(hn::Lt(x, hn::Set(d, 0x1p-14f)), tiny, hn::BitCast(d, rounded));
  return hn::IfThenElse(hn::IsNaN(x), x, result);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace dhyan::cpu
HWY_AFTER_NAMESPACE();
#endif

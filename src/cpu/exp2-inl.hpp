// SPDX-License-Identifier: Apache-2.0
// 2^x for x <= 0 (or above it by rounding), for files compiled once per Highway target.
#if defined(DHYAN_CPU_EXP2_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef DHYAN_CPU_EXP2_INL_HPP
#undef DHYAN_CPU_EXP2_INL_HPP
#else
#define DHYAN_CPU_EXP2_INL_HPP
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace dhyan::cpu {
namespace HWY_NAMESPACE {
namespace {

// 1 + f q(f) on [0, 1], minimax of the relative error 8.2e-8 (2.9e-6 with one term less): 1.3 ulp in all, and exact at 0.
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V exp2_fraction(D d, V f) {
  namespace hn = hwy::HWY_NAMESPACE;
  auto q = hn::Set(d, 0.0018671301659196615f);
  q = hn::MulAdd(q, f, hn::Set(d, 0.009017029777169228f));
  q = hn::MulAdd(q, f, hn::Set(d, 0.05579991266131401f));
  q = hn::MulAdd(q, f, hn::Set(d, 0.24016444385051727f));
  q = hn::MulAdd(q, f, hn::Set(d, 0.6931512951850891f));
  return hn::MulAdd(q, f, hn::Set(d, 1.0f));
}

// -inf gives 0, NaN stays; results below 2^-126 may be 0.
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V exp2_of(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
#if HWY_TARGET == HWY_AVX3
  if constexpr (hn::MaxLanes(D()) == 16) {
    const V f{_mm512_reduce_ps(x.raw, _MM_FROUND_TO_NEG_INF)};
    return V{_mm512_scalef_ps(exp2_fraction(d, f).raw, x.raw)};
  } else
#endif
  {
    const hn::RebindToSigned<D> integers;
    x = hn::Max(hn::Set(d, -127.0f), x);  // x86 gives the second operand where one is NaN
    const auto n = hn::Floor(x);
    const auto power = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(integers, n), hn::Set(integers, 127)));
    return hn::Mul(exp2_fraction(d, hn::Sub(x, n)), hn::BitCast(d, power));
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace dhyan::cpu
HWY_AFTER_NAMESPACE();
#endif

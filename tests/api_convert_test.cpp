// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/convert.hpp"
#include "support/array.hpp"
#include "support/random.hpp"

namespace dhyan::testing {
namespace {

dhyan_tensor view(const Array& array) {
  dhyan_tensor t;
  dhyan_tensor_init(&t);
  t.data = const_cast<void*>(array.data());
  t.dtype = array.dtype();
  t.rank = 4;
  std::copy_n(array.shape().begin(), 4, t.shape);
  std::copy_n(array.strides().begin(), 4, t.strides);
  return t;
}

std::string convert(const dhyan_tensor& source, const dhyan_tensor& destination) {
  char message[256];
  dhyan_convert(&source, &destination, nullptr, message, sizeof message);
  return message;
}

TEST(Convert, RoundsOnceBetweenAnyTwoTypesInAnyLayout) {
  const dhyan_dtype dtypes[] = {DHYAN_F64, DHYAN_F32, DHYAN_F16, DHYAN_BF16};
  for (const dhyan_dtype from : dtypes) {
    for (const dhyan_dtype to : dtypes) {
      for (const Layout layout : {Layout::contiguous, Layout::heads_first, Layout::gaps, Layout::unaligned}) {
        Array source(from, {2, 3, 4, 700}, layout);
        Random random("convert");
        source.fill([&](auto...) { return random.normal() * std::exp2(static_cast<double>(random.integer(-30, 18))); });
        Array got(to, source.shape(), Layout::gaps);
        Array want = got.like();
        want.fill([&](auto b, auto t, auto n, auto h) { return source.get(b, t, n, h); });
        ASSERT_EQ(convert(view(source), view(got)), "");
        EXPECT_EQ(got.element_bytes(), want.element_bytes()) << core::name_of(from) << " to " << core::name_of(to);
        EXPECT_TRUE(got.poison_outside_elements());
      }
    }
  }
}

TEST(Convert, ADoubleIsNotRoundedTwice) {
  // Just above the middle of two bf16 (or f16) numbers; float32 would land on the middle itself and tie to even, downwards.
  for (const dhyan_dtype to : {DHYAN_BF16, DHYAN_F16}) {
    const double step = to == DHYAN_BF16 ? 0x1p-7 : 0x1p-10;
    double source = 1 + step / 2 + 0x1p-40;
    std::vector<std::uint16_t> got(1);
    dhyan_tensor s;
    dhyan_tensor_init(&s);
    dhyan_tensor d = s;
    s.data = &source, s.dtype = DHYAN_F64;
    d.data = got.data(), d.dtype = to;
    ASSERT_EQ(convert(s, d), "");
    const float value = to == DHYAN_BF16 ? core::to_float(core::BFloat16{got[0]}) : core::to_float(core::Float16{got[0]});
    EXPECT_EQ(value, 1 + step);
  }
}

TEST(Convert, MakesAnyViewContiguous) {
  std::vector<float> source = {0, 1, 2, 3, 4, 5};
  std::vector<float> got(6, -1);
  dhyan_tensor s;
  dhyan_tensor_init(&s);
  s.dtype = DHYAN_F32;
  s.rank = 2;
  s.shape[0] = 3, s.shape[1] = 2;
  dhyan_tensor d = s;
  s.data = source.data(), s.strides[0] = 1, s.strides[1] = 3;
  d.data = got.data(), d.strides[0] = 2, d.strides[1] = 1;
  ASSERT_EQ(convert(s, d), "");
  EXPECT_EQ(got, (std::vector<float>{0, 3, 1, 4, 2, 5}));
}

TEST(Convert, LargeTensorsInParallelHaveTheSameBits) {
  Array source(DHYAN_F32, {3, 401, 7, 65}, Layout::contiguous);
  Random random("large");
  source.fill([&](auto...) { return random.normal(); });
  Array got(DHYAN_BF16, source.shape(), Layout::contiguous);
  Array want = got.like();
  want.assign(source.values());
  ASSERT_EQ(convert(view(source), view(got)), "");
  EXPECT_EQ(got.element_bytes(), want.element_bytes());
}

TEST(Convert, RefusesWithOneSentence) {
  const Array a(DHYAN_F32, {1, 2, 3, 4}, Layout::contiguous);
  const Array b(DHYAN_BF16, {1, 2, 3, 5}, Layout::contiguous);
  EXPECT_EQ(convert(view(a), view(b)), "destination: shape [1, 2, 3, 5], it must be the source's, [1, 2, 3, 4]");
  const Array lengths(DHYAN_I32, {1, 2, 3, 4}, Layout::contiguous);
  EXPECT_EQ(convert(view(a), view(lengths)), "destination: dtype i32, it must be f64, f32, f16 or bf16");
  EXPECT_EQ(convert(view(a), view(a)), "destination: shares memory with source, it must not overlap it");
  dhyan_tensor repeated = view(Array(DHYAN_F32, {1, 2, 3, 4}, Layout::contiguous));
  repeated.strides[1] = 0;
  EXPECT_EQ(convert(view(a), repeated), "destination: shape [1, 2, 3, 4], its elements must not share memory");
  dhyan_tensor null = view(a);
  null.data = nullptr;
  EXPECT_EQ(convert(null, view(a)), "source: NULL, a tensor with elements needs its pointer");
  dhyan_tensor odd = view(a);
  odd.data = static_cast<std::byte*>(odd.data) + 1;
  EXPECT_EQ(convert(odd, view(a)), "source: pointer aligned to 1 bytes, it must be aligned to 4");
}

}  // namespace
}  // namespace dhyan::testing

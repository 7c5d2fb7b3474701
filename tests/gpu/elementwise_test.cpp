// SPDX-License-Identifier: Apache-2.0
// dhyan_merge and dhyan_convert on a GPU give what they give in host memory.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/convert.hpp"
#include "gpu/device.hpp"
#include "support/bounds.hpp"
#include "support/compare.hpp"

namespace dhyan::testing::gpu {
namespace {

constexpr dhyan_dtype kTypes[] = {DHYAN_F64, DHYAN_F32, DHYAN_F16, DHYAN_BF16};
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The dimensions named of an array; on cuda:0 when its memory there is given.
dhyan_tensor view(const Array& array, const std::vector<int>& dims, const Mirror* mirror = nullptr) {
  dhyan_tensor t;
  dhyan_tensor_init(&t);
  t.data = mirror ? mirror->data() : const_cast<void*>(array.data());
  t.dtype = array.dtype();
  t.device_type = mirror ? DHYAN_CUDA : DHYAN_CPU;
  t.rank = static_cast<std::int32_t>(dims.size());
  for (std::size_t i = 0; i < dims.size(); ++i) {
    t.shape[i] = array.shape()[static_cast<std::size_t>(dims[i])];
    t.strides[i] = array.strides()[static_cast<std::size_t>(dims[i])];
  }
  return t;
}

std::string convert(const dhyan_tensor& source, const dhyan_tensor& destination) {
  char message[256];
  dhyan_convert(&source, &destination, nullptr, message, sizeof message);
  return message;
}

TEST(GpuConvert, GivesTheBitsOfTheHost) {
  const std::vector<int> all{0, 1, 2, 3};
  for (const dhyan_dtype from : kTypes) {
    for (const dhyan_dtype to : kTypes) {
      for (const Layout layout : {Layout::contiguous, Layout::heads_first, Layout::gaps, Layout::unaligned}) {
        Array source(from, {2, 3, 4, 700}, layout);
        Random random("convert");
        source.fill([&](auto...) { return random.normal() * std::exp2(static_cast<double>(random.integer(-30, 18))); });
        source.set(0, 0, 0, 0, kInfinity);
        source.set(0, 0, 0, 1, -0.0);
        Array want(to, source.shape(), layout == Layout::gaps ? Layout::contiguous : Layout::gaps);
        Array got = want.like();
        ASSERT_EQ(convert(view(source, all), view(want, all)), "");
        const Mirror on_device(source);
        const Mirror result(got);
        ASSERT_EQ(convert(view(source, all, &on_device), view(got, all, &result)), "");
        result.read(got);
        EXPECT_TRUE(same_bits(got, want)) << core::name_of(from) << " to " << core::name_of(to);
      }
    }
  }
}

TEST(GpuConvert, TakesAnyRankAndNothing) {
  Array source(DHYAN_F32, {2, 3, 1, 5}, Layout::contiguous);
  Random random("rank");
  source.fill([&](auto...) { return random.normal(); });
  const Mirror on_device(source);
  for (const std::vector<int>& dims : {std::vector<int>{}, {3}, {1, 3}, {3, 1}, {0, 1, 3}}) {
    Array want(DHYAN_BF16, source.shape(), Layout::contiguous);
    Array got = want.like();
    ASSERT_EQ(convert(view(source, dims), view(want, dims)), "");
    const Mirror result(got);
    ASSERT_EQ(convert(view(source, dims, &on_device), view(got, dims, &result)), "");
    result.read(got);
    EXPECT_TRUE(same_bits(got, want)) << "rank " << dims.size();
  }
  const Array none(DHYAN_F32, {2, 0, 1, 5}, Layout::contiguous);
  const Mirror nothing(none);
  EXPECT_EQ(convert(view(none, {0, 1, 2, 3}, &nothing), view(none, {0, 1, 2, 3}, &nothing)), "");
}

TEST(GpuConvert, RefusesTensorsOfTwoDevices) {
  const Array a(DHYAN_F32, {1, 2, 3, 4}, Layout::contiguous);
  const Array b(DHYAN_BF16, {1, 2, 3, 4}, Layout::contiguous);
  const Mirror on_device(a);
  EXPECT_EQ(convert(view(a, {3}, &on_device), view(b, {3})),
            "destination: device cpu, source is on cuda:0; all tensors must be on one device");
  dhyan_tensor host = view(b, {3});
  host.device_type = DHYAN_CUDA;
  EXPECT_EQ(convert(view(a, {3}, &on_device), host),
            "destination: a pointer to host memory, the tensor is said to be on cuda:0");
}

struct Part {
  Array out, lse;
};

struct PartOnDevice {
  explicit PartOnDevice(const Part& part) : out(part.out), lse(part.lse) {}
  Mirror out, lse;
};

std::string merge(const dhyan_tensor (&t)[6]) {
  char message[256];
  dhyan_merge(&t[0], &t[1], &t[2], &t[3], &t[4], &t[5], nullptr, message, sizeof message);
  return message;
}

std::string merge_on_host(const Part& a, const Part& b, const Part& to, const std::vector<int>& out,
                          const std::vector<int>& lse) {
  return merge({view(a.out, out), view(a.lse, lse), view(b.out, out), view(b.lse, lse), view(to.out, out), view(to.lse, lse)});
}

// A part's result: outputs and lse at random, some rows that saw nothing.
Part part(dhyan_dtype dtype, const Shape& shape, Layout layout, const char* seed) {
  Part p{Array(dtype, shape, layout),
         Array(dtype == DHYAN_F64 ? DHYAN_F64 : DHYAN_F32, {shape[0], 1, shape[2], shape[1]}, layout)};
  Random random(seed);
  p.out.fill([&](auto...) { return random.normal(); });
  p.lse.fill([&](auto...) { return random.uniform() < 0.2 ? -kInfinity : 5 * random.normal(); });
  return p;
}

TEST(GpuMerge, GivesWhatTheHostGives) {
  const std::vector<int> out{0, 1, 2, 3};
  const std::vector<int> lse{0, 2, 3};
  for (const dhyan_dtype dtype : kTypes) {
    for (const Layout layout : {Layout::contiguous, Layout::heads_first, Layout::gaps, Layout::unaligned}) {
      const Part a = part(dtype, {2, 13, 3, 70}, layout, "first part");
      const Part b = part(dtype == DHYAN_BF16 ? DHYAN_F32 : dtype, {2, 13, 3, 70}, Layout::contiguous, "second part");
      const Part want{a.out.like(), a.lse.like()};
      ASSERT_EQ(merge_on_host(a, b, want, out, lse), "");
      const PartOnDevice a_there(a);
      const PartOnDevice b_there(b);
      for (const bool in_place : {false, true}) {
        Part got{a.out.like(), a.lse.like()};
        const PartOnDevice fresh(got);
        const PartOnDevice& to = in_place ? a_there : fresh;
        ASSERT_EQ(merge({view(a.out, out, &a_there.out), view(a.lse, lse, &a_there.lse), view(b.out, out, &b_there.out),
                         view(b.lse, lse, &b_there.lse), view(got.out, out, &to.out), view(got.lse, lse, &to.lse)}),
                  "");
        to.out.read(got.out);
        to.lse.read(got.lse);
        // Two roundings of the products and one of the sum, of numbers of about 1; lse to its last place or two.
        Bound near;
        near.element.assign(static_cast<std::size_t>(got.out.size()), 16 * roundoff(dtype));
        near.norm = kInfinity;
        EXPECT_TRUE(within(got.out, want.out, near)) << core::name_of(dtype) << " in place " << in_place;
        near.element.assign(static_cast<std::size_t>(got.lse.size()), 64 * roundoff(got.lse.dtype()));
        EXPECT_TRUE(within(got.lse, want.lse, near)) << core::name_of(dtype) << " in place " << in_place;
      }
    }
  }
}

TEST(GpuMerge, TakesPackedTensors) {
  const std::vector<int> out{1, 2, 3};
  const std::vector<int> lse{2, 3};
  const Part a = part(DHYAN_F32, {1, 40, 2, 8}, Layout::contiguous, "first part");
  const Part b = part(DHYAN_F32, {1, 40, 2, 8}, Layout::contiguous, "second part");
  const Part want{a.out.like(), a.lse.like()};
  ASSERT_EQ(merge_on_host(a, b, want, out, lse), "");
  Part got{a.out.like(), a.lse.like()};
  const PartOnDevice a_there(a);
  const PartOnDevice b_there(b);
  const PartOnDevice to(got);
  ASSERT_EQ(merge({view(a.out, out, &a_there.out), view(a.lse, lse, &a_there.lse), view(b.out, out, &b_there.out),
                   view(b.lse, lse, &b_there.lse), view(got.out, out, &to.out), view(got.lse, lse, &to.lse)}),
            "");
  to.out.read(got.out);
  to.lse.read(got.lse);
  EXPECT_LT(difference(got.out.values(), want.out.values()).max_absolute, 1e-6);
  EXPECT_EQ(difference(got.lse.values(), want.lse.values()).anomaly, "");
  EXPECT_EQ(merge({view(a.out, out, &a_there.out), view(a.lse, lse), view(b.out, out, &b_there.out),
                   view(b.lse, lse, &b_there.lse), view(got.out, out, &to.out), view(got.lse, lse, &to.lse)}),
            "lse_a: device cpu, out_a is on cuda:0; all tensors must be on one device");
}

}  // namespace
}  // namespace dhyan::testing::gpu

// SPDX-License-Identifier: Apache-2.0
// Conversions between f64, f32, f16 and bf16, against the formats' definition.
#include "core/convert.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/random.hpp"

namespace dhyan::core {
namespace {

// One 16-bit format by its definition: 1 sign bit, `exponent_bits`, the rest mantissa.
struct Format {
  int exponent_bits;
  int mantissa_bits;
  float (*widen)(std::uint16_t bits);
  std::uint16_t (*from_float)(float x);
  std::uint16_t (*from_double)(double x);

  double value(std::uint16_t bits) const {
    const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
    const int mantissa = bits & ((1 << mantissa_bits) - 1);
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const double sign = bits & 0x8000 ? -1.0 : 1.0;
    if (exponent == (1 << exponent_bits) - 1) return mantissa ? std::nan("") : sign * HUGE_VAL;
    if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
    return sign * std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
  }
  std::uint16_t infinity() const { return static_cast<std::uint16_t>(((1 << exponent_bits) - 1) << mantissa_bits); }
};

constexpr Format formats[] = {
    {5, 10, [](std::uint16_t bits) { return to_float(Float16{bits}); }, [](float x) { return to_float16(x).bits; },
     [](double x) { return to_float16(x).bits; }},
    {8, 7, [](std::uint16_t bits) { return to_float(BFloat16{bits}); }, [](float x) { return to_bfloat16(x).bits; },
     [](double x) { return to_bfloat16(x).bits; }},
};

TEST(Convert, EveryHalfPatternWidensToItsValueAndComesBack) {
  for (const Format& format : formats) {
    for (std::uint32_t i = 0; i < 0x10000; ++i) {
      const auto bits = static_cast<std::uint16_t>(i);
      const double value = format.value(bits);
      const float wide = format.widen(bits);
      if (std::isnan(value)) {
        ASSERT_TRUE(std::isnan(wide)) << i;
        ASSERT_TRUE(std::isnan(format.value(format.from_float(wide)))) << i;
        ASSERT_TRUE(std::isnan(format.value(format.from_double(static_cast<double>(wide))))) << i;
        continue;
      }
      ASSERT_EQ(static_cast<double>(wide), value) << i;
      ASSERT_EQ(std::signbit(wide), bits >= 0x8000) << i;
      ASSERT_EQ(format.from_float(wide), bits) << i;
      ASSERT_EQ(format.from_double(value), bits) << i;
    }
  }
}

// Between every two neighbours: the middle goes to the even one, anything off the middle to the nearer one. The last
// neighbour of the largest number is infinity, in the place of the next power of two.
TEST(Convert, RoundsToNearestAndTiesToEven) {
  for (const Format& format : formats) {
    for (std::uint16_t low = 0; low < format.infinity(); ++low) {
      const auto high = static_cast<std::uint16_t>(low + 1);
      const double below = format.value(low);
      const double above = high == format.infinity() ? 2 * format.value(low) - format.value(low - 1) : format.value(high);
      const double middle = below + (above - below) / 2;
      const std::uint16_t even = low % 2 == 0 ? low : high;
      for (const double sign : {1.0, -1.0}) {
        const auto signed_bits = [&](std::uint16_t bits) {
          return static_cast<std::uint16_t>(sign < 0 ? bits | 0x8000 : bits);
        };
        ASSERT_EQ(format.from_double(sign * middle), signed_bits(even)) << low;
        ASSERT_EQ(format.from_double(sign * std::nextafter(middle, 0)), signed_bits(low)) << low;
        ASSERT_EQ(format.from_double(sign * std::nextafter(middle, HUGE_VAL)), signed_bits(high)) << low;
        const auto middle32 = static_cast<float>(middle);
        ASSERT_EQ(static_cast<double>(middle32), middle);
        ASSERT_EQ(format.from_float(static_cast<float>(sign) * middle32), signed_bits(even)) << low;
        ASSERT_EQ(format.from_float(static_cast<float>(sign) * std::nextafterf(middle32, 0)), signed_bits(low)) << low;
        ASSERT_EQ(format.from_float(static_cast<float>(sign) * std::nextafterf(middle32, HUGE_VALF)), signed_bits(high)) << low;
      }
    }
  }
}

TEST(Convert, WhatIsTooLargeBecomesInfinityAndWhatIsTooSmallZero) {
  for (const Format& format : formats) {
    EXPECT_EQ(format.from_float(HUGE_VALF), format.infinity());
    EXPECT_EQ(format.from_float(std::numeric_limits<float>::max()), format.infinity());
    EXPECT_EQ(format.from_double(1e300), format.infinity());
    EXPECT_EQ(format.from_double(-1e300), format.infinity() | 0x8000);
    EXPECT_EQ(format.from_double(-HUGE_VAL), format.infinity() | 0x8000);
    EXPECT_EQ(format.from_double(1e-300), 0);
    EXPECT_EQ(format.from_double(-1e-300), 0x8000);
    EXPECT_EQ(format.from_float(-0.0f), 0x8000);
  }
}

TEST(Convert, RandomNumbersGoToTheNearest) {
  testing::Random random("Convert.RandomNumbersGoToTheNearest");
  for (const Format& format : formats) {
    for (int i = 0; i < 200000; ++i) {
      const double x = std::ldexp(random.normal(), static_cast<int>(random.integer(-30, 18)));
      const std::uint16_t bits = format.from_double(x);
      const double got = format.value(bits);
      if (std::isinf(got)) continue;
      const double next = format.value(static_cast<std::uint16_t>(bits + 1));
      const double before = (bits & 0x7FFF) == 0 ? got : format.value(static_cast<std::uint16_t>(bits - 1));
      ASSERT_LE(std::abs(x - got), std::abs(x - next)) << x;
      ASSERT_LE(std::abs(x - got), std::abs(x - before)) << x;
    }
  }
}

TEST(Convert, LoadAndStoreAgreeWithTheTypes) {
  alignas(8) std::byte memory[16] = {};
  for (const dhyan_dtype dtype : {DHYAN_F64, DHYAN_F32, DHYAN_F16, DHYAN_BF16}) {
    store(memory, dtype, 1, -1.5);
    EXPECT_EQ(load(memory, dtype, 1), -1.5) << name_of(dtype);
    EXPECT_EQ(load(advance(static_cast<const void*>(memory), dtype, 1), dtype, 0), -1.5) << name_of(dtype);
  }
}

}  // namespace
}  // namespace dhyan::core

// SPDX-License-Identifier: Apache-2.0
// Every f32 engine against plain double loops.
#include "cpu/engine.hpp"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/convert.hpp"

namespace dhyan::cpu {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::mt19937_64& generator() {
  static std::mt19937_64 engine = [] {
    const std::uint64_t seed = std::random_device{}();
    testing::Test::RecordProperty("seed", std::to_string(seed));
    return std::mt19937_64(seed);
  }();
  return engine;
}

// 64-byte aligned bytes, full of NaNs.
class Storage {
 public:
  explicit Storage(std::size_t bytes) : floats_(bytes / 4 + 32, kNaN) {}
  float* data() {
    const auto address = reinterpret_cast<std::uintptr_t>(floats_.data());
    return floats_.data() + (64 - address % 64) % 64 / 4;
  }

 private:
  std::vector<float> floats_;
};

// A matrix inside poisoned memory, at an odd offset and with an odd stride.
struct Matrix {
  dhyan_dtype dtype;
  int rows, columns;
  std::int64_t stride;
  float factor;
  std::vector<std::byte> bytes;

  Matrix(dhyan_dtype type, int r, int c, float f) : dtype(type), rows(r), columns(c), stride(c + 3), factor(f) {
    const std::int64_t count = 1 + stride * rows;
    bytes.resize(static_cast<std::size_t>(count) * core::size_of(dtype));
    std::normal_distribution<double> normal;
    for (std::int64_t i = 0; i < count; ++i) core::store(bytes.data(), dtype, i, std::nan(""));
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < columns; ++j) core::store(bytes.data(), dtype, 1 + i * stride + j, normal(generator()));
  }
  Source source() const { return {bytes.data() + core::size_of(dtype), dtype, stride, factor}; }
  double operator()(int i, int j) const {
    return static_cast<float>(core::load(bytes.data(), dtype, 1 + i * stride + j)) * factor;
  }
};

struct Shape {
  int m, n, k;
};

void check_product(const Engine& engine, const Shape& shape, dhyan_dtype dtype, bool left_t, bool right_t, float factor) {
  const auto [m, n, k] = shape;
  const Matrix a = left_t ? Matrix(dtype, k, m, factor) : Matrix(dtype, m, k, factor);
  const Matrix b = right_t ? Matrix(dtype, n, k, 1) : Matrix(dtype, k, n, 1);
  Storage a_storage(engine.left_bytes(m, k)), b_storage(engine.right_bytes(k, n));
  const Left left =
      left_t ? engine.left_transposed(a.source(), m, k, a_storage.data()) : engine.left(a.source(), m, k, a_storage.data());
  (right_t ? engine.right_transposed : engine.right)(b.source(), k, n, b_storage.data());

  const int stride = (n + 15) / 16 * 16 + 16;
  Storage c(sizeof(float) * static_cast<std::size_t>(m + 1) * static_cast<std::size_t>(stride));
  for (const bool accumulate : {false, true}) {
    engine.multiply(left, b_storage.data(), c.data(), stride, m, n, k, accumulate);
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) {
        double want = 0, magnitude = 0;
        for (int l = 0; l < k; ++l) {
          const double product = (left_t ? a(l, i) : a(i, l)) * (right_t ? b(j, l) : b(l, j));
          want += product;
          magnitude += std::abs(product);
        }
        const double times = accumulate ? 2 : 1;
        ASSERT_NEAR(c.data()[i * stride + j], times * want, times * (k + 1) * 0x1p-24 * magnitude)
            << engine.name << " m " << m << " n " << n << " k " << k << " at " << i << ", " << j << " " << core::name_of(dtype)
            << (left_t ? " left transposed" : "") << (right_t ? " right transposed" : "");
      }
      ASSERT_TRUE(std::isnan(c.data()[i * stride + (n + 15) / 16 * 16])) << "wrote past the rounded columns";
    }
    ASSERT_TRUE(std::isnan(c.data()[m * stride])) << "wrote past the last row";
  }
}

TEST(Engine, EveryTargetMultipliesLikePlainLoops) {
  const std::vector<Shape> shapes = {{1, 1, 1},    {2, 16, 3},    {3, 17, 64}, {5, 33, 65},  {6, 48, 4},
                                     {7, 63, 7},   {8, 64, 80},   {9, 65, 33}, {13, 80, 16}, {24, 96, 128},
                                     {25, 130, 2}, {11, 257, 67}, {4, 5, 0},   {31, 144, 5}};
  int engines = 0;
  for (std::int64_t target : {std::int64_t{HWY_AVX3}, std::int64_t{HWY_AVX2}, std::int64_t{HWY_SSE4}}) {
    if (!(hwy::SupportedTargets() & target)) continue;
    ++engines;
    const Engine& engine = f32_engine_on(target);
    for (const Shape& shape : shapes)
      for (const dhyan_dtype dtype : {DHYAN_F32, DHYAN_F16, DHYAN_BF16})
        for (const bool left_t : {false, true})
          for (const bool right_t : {false, true})
            for (const float factor : {1.0f, 0.37f}) check_product(engine, shape, dtype, left_t, right_t, factor);
  }
  EXPECT_GE(engines, 1);
}

// Every f16 and bf16 pattern reaches a product as core::to_float reads it.
TEST(Engine, EveryTargetWidensEveryHalfPattern) {
  for (std::int64_t target : {std::int64_t{HWY_AVX3}, std::int64_t{HWY_AVX2}, std::int64_t{HWY_SSE4}}) {
    if (!(hwy::SupportedTargets() & target)) continue;
    const Engine& engine = f32_engine_on(target);
    for (const dhyan_dtype dtype : {DHYAN_F16, DHYAN_BF16}) {
      std::vector<std::uint16_t> bits(1 << 16);
      for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
      Storage storage(engine.left_bytes(256, 256));
      const Left left = engine.left({bits.data(), dtype, 256, 1}, 256, 256, storage.data());
      for (int i = 0; i < 1 << 16; ++i) {
        const float got = static_cast<const float*>(left.data)[i / 256 * left.row_stride + i % 256 * left.depth_stride];
        const std::uint16_t pattern = static_cast<std::uint16_t>(i);
        const float want =
            dtype == DHYAN_F16 ? core::to_float(core::Float16{pattern}) : core::to_float(core::BFloat16{pattern});
        if (std::isnan(want)) {
          ASSERT_TRUE(std::isnan(got)) << i;
        } else {
          ASSERT_EQ(std::bit_cast<std::uint32_t>(got), std::bit_cast<std::uint32_t>(want)) << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace dhyan::cpu

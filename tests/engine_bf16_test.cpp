// SPDX-License-Identifier: Apache-2.0
// Every bf16 engine this machine has against plain double loops over operands rounded to bf16.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/convert.hpp"
#include "cpu/engine.hpp"

namespace dhyan::cpu {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::vector<const Engine*> bf16_engines() {
  std::vector<const Engine*> engines;
  for (const Engine* engine : {bf16_dot_engine(), amx_engine()})
    if (engine) engines.push_back(engine);
  return engines;
}

class Bf16Engine : public testing::Test {
 protected:
  void SetUp() override {
    const std::uint64_t seed = std::random_device{}();
    RecordProperty("seed", std::to_string(seed));
    random_.seed(seed);
    if (bf16_engines().empty()) GTEST_SKIP() << "this machine has no bf16 unit";
  }
  std::mt19937_64 random_;
};

// 64-byte aligned, full of NaNs.
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

struct Layout {
  std::int64_t before;  // elements ahead of the first row
  std::int64_t gap;     // and between rows
};

// A matrix of normal numbers amid NaNs: before it, between its rows and behind it.
class Matrix {
 public:
  Matrix(dhyan_dtype dtype, int rows, int columns, Layout layout, float factor, std::mt19937_64& random)
      : dtype_(dtype), before_(layout.before), stride_(columns + layout.gap), factor_(factor) {
    const std::int64_t count = before_ + stride_ * rows + 1;
    storage_ = Storage(static_cast<std::size_t>(count) * core::size_of(dtype));
    std::normal_distribution<double> normal;
    for (std::int64_t i = 0; i < count; ++i) core::store(storage_.data(), dtype, i, std::nan(""));
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < columns; ++j) core::store(storage_.data(), dtype, index(i, j), normal(random));
  }
  Source source() { return {core::advance(storage_.data(), dtype_, before_), dtype_, stride_, factor_}; }
  // As an engine must see it.
  double operator()(int i, int j) {
    const auto value = static_cast<float>(core::load(storage_.data(), dtype_, index(i, j)));
    return core::to_float(core::to_bfloat16(value * factor_));
  }

 private:
  std::int64_t index(int i, int j) const { return before_ + i * stride_ + j; }

  dhyan_dtype dtype_;
  std::int64_t before_, stride_;
  float factor_;
  Storage storage_{0};
};

struct Shape {
  int m, n, k;
};

struct Form {
  dhyan_dtype dtype;
  bool left_transposed, right_transposed;
  float factor;
  Layout layout;
};

void check_product(const Engine& engine, const Shape& shape, const Form& form, std::mt19937_64& random) {
  const auto [m, n, k] = shape;
  const bool left_t = form.left_transposed;
  const bool right_t = form.right_transposed;
  Matrix a(form.dtype, left_t ? k : m, left_t ? m : k, form.layout, form.factor, random);
  Matrix b(form.dtype, right_t ? n : k, right_t ? k : n, form.layout, 1, random);
  Storage a_storage(engine.left_bytes(m, k)), b_storage(engine.right_bytes(k, n));
  const Left left = (left_t ? engine.left_transposed : engine.left)(a.source(), m, k, a_storage.data());
  (right_t ? engine.right_transposed : engine.right)(b.source(), k, n, b_storage.data());

  const int rounded = (n + 15) / 16 * 16;
  const int stride = rounded + 16;
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
        ASSERT_NEAR(c.data()[i * stride + j], times * want, times * (k + 2) * 0x1p-24 * magnitude)
            << engine.name << " m " << m << " n " << n << " k " << k << " at " << i << ", " << j << " "
            << core::name_of(form.dtype) << (left_t ? " left transposed" : "") << (right_t ? " right transposed" : "");
      }
      ASSERT_TRUE(std::isnan(c.data()[i * stride + rounded])) << engine.name << " wrote past the rounded columns";
    }
    ASSERT_TRUE(std::isnan(c.data()[m * stride])) << engine.name << " wrote past the last row";
  }
}

TEST_F(Bf16Engine, MultipliesLikePlainLoopsInEveryShapeAndForm) {
  const std::vector<Shape> shapes = {{1, 1, 1},    {2, 16, 3},    {3, 17, 64},   {5, 33, 65},  {6, 48, 4},    {7, 63, 7},
                                     {8, 64, 80},  {9, 65, 33},   {13, 80, 16},  {16, 32, 32}, {17, 31, 31},  {24, 96, 128},
                                     {25, 130, 2}, {11, 257, 67}, {4, 5, 0},     {0, 7, 9},    {31, 144, 5},  {32, 64, 64},
                                     {33, 16, 96}, {47, 112, 34}, {48, 208, 63}, {64, 64, 66}, {65, 15, 128}, {96, 64, 37}};
  for (const Engine* engine : bf16_engines())
    for (const Shape& shape : shapes)
      for (const dhyan_dtype dtype : {DHYAN_F32, DHYAN_F16, DHYAN_BF16})
        for (const bool left_t : {false, true})
          for (const bool right_t : {false, true})
            for (const float factor : {1.0f, 0.25f})
              for (const Layout layout : {Layout{32, 0}, Layout{32, 32}, Layout{1, 3}}) {
                check_product(*engine, shape, {dtype, left_t, right_t, factor, layout}, random_);
                if (HasFatalFailure()) return;
              }
}

TEST_F(Bf16Engine, MultipliesLikePlainLoopsInRandomShapes) {
  std::uniform_int_distribution<int> size(1, 150);
  for (const Engine* engine : bf16_engines()) {
    for (int i = 0; i < 60; ++i) {
      const Shape shape = {size(random_), size(random_), size(random_)};
      const dhyan_dtype dtype = i % 3 == 0 ? DHYAN_F32 : DHYAN_BF16;
      check_product(*engine, shape, {dtype, i % 2 == 1, i % 4 >= 2, 1, {i % 5, i % 7}}, random_);
      if (HasFatalFailure()) return;
    }
  }
}

// A column of values times a single 1: what comes out is what the engine made of each operand.
std::vector<float> through(const Engine& engine, const Source& column, int count, bool transposed) {
  const float one = 1;
  Storage a(engine.left_bytes(count, 1)), b(engine.right_bytes(1, 1));
  Storage c(sizeof(float) * static_cast<std::size_t>(count) * 16);
  const Left left = (transposed ? engine.left_transposed : engine.left)(column, count, 1, a.data());
  engine.right({&one, DHYAN_F32, 1}, 1, 1, b.data());
  engine.multiply(left, b.data(), c.data(), 16, count, 1, 1, false);
  std::vector<float> out;
  for (int i = 0; i < count; ++i) out.push_back(c.data()[i * 16]);
  return out;
}

void expect_same(float got, float want, const char* engine, std::uint32_t pattern) {
  if (std::isnan(want)) {
    ASSERT_TRUE(std::isnan(got)) << engine << " pattern " << pattern;
  } else {
    if (std::abs(want) < 0x1p-126f) want = 0;  // the units take subnormals for zero
    ASSERT_EQ(got, want) << engine << " pattern " << pattern;
  }
}

TEST_F(Bf16Engine, TakesEveryPatternOfBf16AndF16) {
  std::vector<std::uint16_t> bits(1 << 16);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
  for (const Engine* engine : bf16_engines()) {
    for (const dhyan_dtype dtype : {DHYAN_BF16, DHYAN_F16}) {
      for (const bool transposed : {false, true}) {
        const std::vector<float> got = through(*engine, {bits.data(), dtype, transposed ? 1 << 16 : 1}, 1 << 16, transposed);
        for (std::uint32_t i = 0; i < 1 << 16; ++i) {
          const auto pattern = static_cast<std::uint16_t>(i);
          const float value =
              dtype == DHYAN_F16 ? core::to_float(core::Float16{pattern}) : core::to_float(core::BFloat16{pattern});
          expect_same(got[i], core::to_float(core::to_bfloat16(value)), engine->name, i);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_F(Bf16Engine, RoundsF32ToNearestEven) {
  std::vector<float> values;
  for (int i = 0; i < 1 << 14; ++i) {
    const auto random = static_cast<std::uint32_t>(random_());
    for (const std::uint32_t low : {0x0000u, 0x0001u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu})  // ties among them
      values.push_back(std::bit_cast<float>((random & 0xFFFF0000u) | low));
  }
  const int count = static_cast<int>(values.size());
  for (const Engine* engine : bf16_engines()) {
    for (const bool transposed : {false, true}) {
      const std::vector<float> got = through(*engine, {values.data(), DHYAN_F32, transposed ? count : 1}, count, transposed);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const float want = std::abs(values[i]) < 0x1p-126f ? 0 : core::to_float(core::to_bfloat16(values[i]));
        expect_same(got[i], want, engine->name, std::bit_cast<std::uint32_t>(values[i]));
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Threads multiply different row counts (AMX: other tile configurations) in turn, releasing now and then.
TEST_F(Bf16Engine, GivesTheSameBitsInEveryThread) {
  constexpr int kMost = 70, kN = 48, kK = 96;
  Matrix a(DHYAN_BF16, kMost, kK, {0, 0}, 1, random_);
  Matrix b(DHYAN_BF16, kK, kN, {0, 0}, 1, random_);
  for (const Engine* engine : bf16_engines()) {
    const auto product = [&](int m) {
      Storage left(engine->left_bytes(m, kK)), right(engine->right_bytes(kK, kN)), c(sizeof(float) * kMost * kN);
      engine->right(b.source(), kK, kN, right.data());
      engine->multiply(engine->left(a.source(), m, kK, left.data()), right.data(), c.data(), kN, m, kN, kK, false);
      return std::vector<float>(c.data(), c.data() + m * kN);
    };
    const std::vector<float> want = product(kMost);
    std::vector<std::string> failures(4);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < failures.size(); ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 300; ++i) {
          const int m = 1 + (i * 37 + static_cast<int>(t) * 11) % kMost;
          const std::vector<float> got = product(m);
          for (std::size_t j = 0; j < got.size(); ++j)
            if (got[j] != want[j]) failures[t] = "differs at m " + std::to_string(m);
          if (i % 5 == 0 && engine->release) engine->release();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::string& failure : failures) EXPECT_EQ(failure, "") << engine->name;
  }
}

}  // namespace
}  // namespace dhyan::cpu

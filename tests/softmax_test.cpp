// SPDX-License-Identifier: Apache-2.0
// The row work of online softmax, on every target, against double precision.
#include "cpu/softmax.hpp"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <random>
#include <vector>

#include "core/convert.hpp"
#include "cpu/target.hpp"

namespace dhyan::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLog2e = std::numbers::log2e_v<float>;

std::vector<const SoftmaxKernels*> targets() {
  std::vector<const SoftmaxKernels*> all;
  for (const std::int64_t target : {std::int64_t{HWY_AVX3}, std::int64_t{HWY_AVX2}, std::int64_t{HWY_SSE4}}) {
    if (hwy::SupportedTargets() & target) all.push_back(&softmax_kernels_on(target));
  }
  return all;
}

// One tile of rows of floats, 64-byte aligned, as the kernels want them.
struct Rows {
  static constexpr int kStride = 320;
  alignas(64) float data[11 * kStride];
  alignas(64) std::uint16_t packed[11 * kStride];
  float highest[11], sum[11], rescale[11];

  Rows() {
    std::fill(std::begin(data), std::end(data), std::nanf(""));
    std::fill(std::begin(highest), std::end(highest), -kInfinity);
    std::fill(std::begin(sum), std::end(sum), 0.0f);
  }
  float* row(int r) { return data + r * kStride; }
  WeightRows tile(int count, int columns, WeightForm form) { return {data, kStride, count, columns, form, packed, kStride}; }
};

TEST(Softmax, WeightsAndSumsMatchDoublePrecisionAcrossTiles) {
  std::mt19937_64 generator(std::random_device{}());
  for (const SoftmaxKernels* kernels : targets()) {
    for (const double spread : {1.0, 30.0, 1e4}) {
      for (const int columns : {1, 7, 16, 63, 64, 65, 300}) {
        Rows rows;
        std::normal_distribution<float> normal(0, static_cast<float>(spread));
        double sum[11] = {}, highest[11];
        std::fill(std::begin(highest), std::end(highest), -INFINITY);
        for (int tile = 0; tile < 3; ++tile) {
          std::vector<float> logits(11 * 300);
          for (int r = 0; r < 11; ++r)
            for (int c = 0; c < columns; ++c) rows.row(r)[c] = logits[r * 300 + c] = normal(generator);
          kernels->tile(rows.tile(11, columns, WeightForm::f32), kLog2e, rows.highest, rows.sum, rows.rescale);
          for (int r = 0; r < 11; ++r) {
            const double before = highest[r];
            for (int c = 0; c < columns; ++c) highest[r] = std::max<double>(highest[r], logits[r * 300 + c]);
            sum[r] *= std::exp(before - highest[r]);
            ASSERT_EQ(rows.highest[r], static_cast<float>(highest[r]));
            ASSERT_NEAR(rows.rescale[r], std::exp(before - highest[r]), 1e-6);
            for (int c = 0; c < columns; ++c) {
              const double want = std::exp(logits[r * 300 + c] - highest[r]);
              sum[r] += want;
              ASSERT_NEAR(rows.row(r)[c], want, want * (3e-7 + 1.5e-7 * std::abs(logits[r * 300 + c] - highest[r])) + 0x1p-126)
                  << "column " << c;
            }
            const double lse = highest[r] + std::log(sum[r]);
            ASSERT_NEAR(softmax_lse(rows.highest[r], rows.sum[r], kLog2e), lse, 2e-7 * (2 + std::abs(lse)));
          }
        }
      }
    }
  }
}

TEST(Softmax, RowsThatSeeNothingWeighNothing) {
  for (const SoftmaxKernels* kernels : targets()) {
    Rows rows;
    std::fill_n(rows.row(0), 40, -kInfinity);
    std::fill_n(rows.row(1), 40, -kInfinity);
    rows.row(1)[17] = 3;
    kernels->tile(rows.tile(2, 40, WeightForm::f32), kLog2e, rows.highest, rows.sum, rows.rescale);
    for (int c = 0; c < 40; ++c) {
      EXPECT_EQ(rows.row(0)[c], 0);
      EXPECT_EQ(rows.row(1)[c], c == 17 ? 1 : 0);
    }
    EXPECT_EQ(rows.sum[0], 0);
    EXPECT_EQ(rows.rescale[0], 1);
    EXPECT_EQ(softmax_lse(rows.highest[0], rows.sum[0], kLog2e), -INFINITY);
    std::fill_n(rows.row(1), 40, -kInfinity);  // nothing in a later tile changes nothing
    kernels->tile(rows.tile(2, 40, WeightForm::f32), kLog2e, rows.highest, rows.sum, rows.rescale);
    EXPECT_EQ(rows.sum[1], 1);
    EXPECT_EQ(rows.rescale[1], 1);
    EXPECT_EQ(rows.row(1)[17], 0);
  }
}

TEST(Softmax, LogitsAtTheEndsOfTheRangeStayFinite) {
  const float lowest = std::numeric_limits<float>::lowest(), largest = std::numeric_limits<float>::max();
  for (const SoftmaxKernels* kernels : targets()) {
    Rows rows;
    std::fill_n(rows.row(0), 32, lowest);  // a mask of finite minima: all keys alike
    std::fill_n(rows.row(1), 32, lowest);
    rows.row(1)[3] = 1;
    std::fill_n(rows.row(2), 32, largest);
    kernels->tile(rows.tile(3, 32, WeightForm::f32), kLog2e, rows.highest, rows.sum, rows.rescale);
    EXPECT_EQ(rows.sum[0], 32);
    EXPECT_EQ(rows.sum[1], 1);
    EXPECT_EQ(rows.sum[2], 32);
    EXPECT_NEAR(softmax_lse(rows.highest[0], rows.sum[0], kLog2e), lowest, 1e32);
    EXPECT_NEAR(softmax_lse(rows.highest[1], rows.sum[1], kLog2e), 1, 1e-6);
    std::fill_n(rows.row(0), 32, 0.5f);  // a visible key after a tile of minima
    kernels->tile(rows.tile(1, 32, WeightForm::f32), kLog2e, rows.highest, rows.sum, rows.rescale);
    EXPECT_EQ(rows.rescale[0], 0);
    EXPECT_EQ(rows.sum[0], 32);
  }
}

TEST(Softmax, NaNReachesTheSum) {
  for (const SoftmaxKernels* kernels : targets()) {
    for (const float odd : {std::nanf(""), kInfinity}) {
      for (const int at : {0, 20, 39}) {
        Rows rows;
        std::fill_n(rows.row(0), 40, 1.0f);
        rows.row(0)[at] = odd;
        kernels->tile(rows.tile(1, 40, WeightForm::f32), kLog2e, rows.highest, rows.sum, rows.rescale);
        EXPECT_TRUE(std::isnan(rows.sum[0])) << odd << " at " << at;
      }
    }
  }
}

TEST(Softmax, RoundsWeightsToNearestEven) {
  std::mt19937_64 generator(std::random_device{}());
  for (const SoftmaxKernels* kernels : targets()) {
    const bool hardware = kernels == targets()[0] && !has_avx512_bf16();
    for (const WeightForm form : {WeightForm::f32_bf16, WeightForm::f32_f16, WeightForm::bf16}) {
      if (form == WeightForm::bf16 && hardware) continue;
      Rows rows;
      std::vector<float> weights(11 * 320);
      for (std::size_t i = 0; i < weights.size(); ++i) {
        const float tie = 1 + static_cast<float>(generator() % 256) * 0x1p-8f;  // half way between two bf16 or exactly one
        const float any = std::exp2(-std::uniform_real_distribution<float>(0, 30)(generator));
        weights[i] = rows.data[i] = i % 2 ? any : tie * std::exp2(-static_cast<float>(generator() % 20));
      }
      kernels->round(rows.tile(11, 300, form));
      for (int r = 0; r < 11; ++r) {
        for (int c = 0; c < 300; ++c) {
          const float w = weights[static_cast<std::size_t>(r) * 320 + static_cast<std::size_t>(c)];
          const float want =
              form == WeightForm::f32_f16 ? core::to_float(core::to_float16(w)) : core::to_float(core::to_bfloat16(w));
          const float got =
              form == WeightForm::bf16 ? core::to_float(core::BFloat16{rows.packed[r * Rows::kStride + c]}) : rows.row(r)[c];
          ASSERT_EQ(got, want) << w;
        }
      }
    }
  }
}

TEST(Softmax, WritesEveryTypeAsTheScalarConversionsDo) {
  std::mt19937_64 generator(std::random_device{}());
  for (const SoftmaxKernels* kernels : targets()) {
    for (int round = 0; round < 2000; ++round) {
      alignas(64) float row[48];
      for (float& x : row) {
        x = std::bit_cast<float>(static_cast<std::uint32_t>(generator()));
        if (round % 2)
          x = std::ldexp(std::uniform_real_distribution<float>(-1, 1)(generator), static_cast<int>(generator() % 45) - 27);
      }
      const int columns = 1 + static_cast<int>(generator() % 48);
      for (const dhyan_dtype dtype : {DHYAN_F32, DHYAN_F16, DHYAN_BF16}) {
        std::vector<std::byte> out(49 * 4, std::byte{0x5A});
        kernels->write(row, 1, columns, dtype, out.data());
        for (int c = 0; c < columns; ++c) {
          std::byte want[8];
          if (dtype == DHYAN_F32) {
            std::memcpy(want, row + c, 4);
          } else {
            const std::uint16_t bits = dtype == DHYAN_F16 ? core::to_float16(row[c]).bits : core::to_bfloat16(row[c]).bits;
            std::memcpy(want, &bits, 2);
          }
          const double expected = core::load(want, dtype, 0), got = core::load(out.data(), dtype, c);
          if (std::isnan(expected)) {
            ASSERT_TRUE(std::isnan(got));
          } else {
            ASSERT_EQ(got, expected) << row[c] << " as " << core::name_of(dtype);
          }
        }
        ASSERT_EQ(out[static_cast<std::size_t>(columns) * core::size_of(dtype)], std::byte{0x5A}) << "wrote past the row";
      }
    }
  }
}

}  // namespace
}  // namespace dhyan::cpu

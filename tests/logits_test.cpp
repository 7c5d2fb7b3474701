// SPDX-License-Identifier: Apache-2.0
// Logits and dropout of every target against one element at a time.
#include "cpu/logits.hpp"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "core/convert.hpp"
#include "core/philox.hpp"

namespace dhyan::cpu {
namespace {

constexpr std::int64_t kTargets[] = {HWY_AVX3, HWY_AVX2, HWY_SSE4};

std::mt19937_64& generator() {
  static std::mt19937_64 engine(std::random_device{}());
  return engine;
}

core::Problem small_problem() {
  core::Problem p;
  p.dtype = DHYAN_F32;
  p.batch = 2;
  p.query_length = p.query_tokens = 40;
  p.key_length = p.key_tokens = 100;
  p.query_heads = 6;
  p.key_heads = 2;
  return p;
}

core::Sequence whole(const core::Problem& p) {
  core::Sequence s;
  s.query_count = p.query_length;
  s.key_count = p.key_length;
  return s;
}

TEST(Logits, DropoutKeepsWhatOneWeightAtATimeKeeps) {
  core::Problem p = small_problem();
  p.batch_origin = 5, p.head_origin = 3, p.query_origin = 1000;
  const core::Buffers buffers{};
  for (const double probability : {0.1, 0.5, 0.999, 1.0}) {
    for (const std::int64_t key_origin : {0, 1, 2, 3, 4096}) {
      p.key_origin = key_origin;
      p.dropout = {probability, static_cast<std::uint64_t>(probability * 4294967296.0), generator()()};
      const core::Sequence sequence = whole(p);
      for (const std::int64_t target : kTargets) {
        if (!(hwy::SupportedTargets() & target)) continue;
        for (const int heads : {1, 3}) {
          for (const int columns : {1, 17, 64, 300}) {
            constexpr int kStride = 304;
            const Tile tile{p, buffers, sequence, 1, 3, 2, 5, heads, 7, columns};
            std::vector<float> weights(7 * kStride);
            std::uniform_real_distribution<float> uniform(0.1f, 1.0f);
            for (float& w : weights) w = uniform(generator());
            const std::vector<float> before = weights;
            logit_kernels_on(target).dropout(tile, weights.data(), kStride);
            for (int r = 0; r < 7; ++r) {
              for (int c = 0; c < kStride; ++c) {
                const float w = before[static_cast<std::size_t>(r) * kStride + static_cast<std::size_t>(c)];
                const float got = weights[static_cast<std::size_t>(r) * kStride + static_cast<std::size_t>(c)];
                if (c >= columns) {
                  ASSERT_EQ(got, w) << "touched a column past the tile";
                } else if (core::keeps(p, 1, 3 + r % heads, 2 + r / heads, 5 + c)) {
                  ASSERT_FLOAT_EQ(got, w / static_cast<float>(1 - probability));
                } else {
                  ASSERT_EQ(got, 0.0f);
                }
              }
            }
          }
        }
      }
    }
  }
}

TEST(Logits, EveryTermMatchesItsFormula) {
  constexpr int kRows = 9, kStride = 112;
  const float infinity = std::numeric_limits<float>::infinity();
  std::normal_distribution<float> normal;
  std::vector<float> slopes(12);
  for (float& s : slopes) s = normal(generator());
  std::vector<std::uint8_t> mask(2 * 6 * 40 * 100);
  for (auto& m : mask) m = generator()() % 3 != 0;
  for (int terms = 0; terms < 64; ++terms) {
    for (const dhyan_dtype bias_dtype : {DHYAN_F32, DHYAN_F16, DHYAN_BF16}) {
      for (const bool broadcast : {false, true}) {
        core::Problem p = small_problem();
        core::Buffers buffers{};
        std::vector<std::uint32_t> bias(2 * 6 * 40 * 100);
        if (terms & 1) p.softcap = 1.5;
        if (terms & 2) {
          p.bias.dtype = bias_dtype;
          p.bias.strides =
              broadcast ? std::array<std::int64_t, 4>{0, 40, 1, 0} : std::array<std::int64_t, 4>{24000, 4000, 100, 1};
          for (int i = 0; i < 48000; ++i) core::store(bias.data(), bias_dtype, i, normal(generator()));
          buffers.bias = bias.data();
        }
        if (terms & 4) {
          p.alibi_slopes.dtype = DHYAN_F32;
          p.alibi_slopes.strides = {6, 1, 0, 0};
          buffers.alibi_slopes = slopes.data();
        }
        if (terms & 8) {
          p.mask.dtype = DHYAN_BOOL;
          p.mask.strides =
              broadcast ? std::array<std::int64_t, 4>{240, 40, 1, 0} : std::array<std::int64_t, 4>{24000, 4000, 100, 1};
          buffers.mask = mask.data();
        }
        if (terms & 16) p.causal = DHYAN_CAUSAL_TOP_LEFT;
        if (terms & 32) p.window_left = 7, p.window_right = 11;
        core::Sequence sequence = whole(p);
        sequence.shift = 9;
        sequence.key_count = 97;
        for (const std::int64_t target : kTargets) {
          if (!(hwy::SupportedTargets() & target)) continue;
          for (const int columns : {5, 90}) {
            const Tile tile{p, buffers, sequence, 1, 2, 4, 8, 2, kRows, columns};
            std::vector<float> scores(kRows * kStride), slope(kRows * kStride);
            for (float& s : scores) s = 3 * normal(generator());
            const std::vector<float> before = scores;
            logit_kernels_on(target).finish(tile, scores.data(), kStride, slope.data());
            for (int r = 0; r < kRows; ++r) {
              const std::int64_t n = 2 + r % 2, t = 4 + r / 2;
              const core::KeyRange visible = core::visible_keys(p, sequence, t);
              for (int c = 0; c < kStride; ++c) {
                const std::size_t at = static_cast<std::size_t>(r) * kStride + static_cast<std::size_t>(c);
                const std::int64_t s = 8 + c;
                double want = before[at];
                if (c >= columns) {
                  ASSERT_EQ(scores[at], before[at]) << "touched a column past the tile";
                  continue;
                }
                const double tanh = std::tanh(want / 1.5);
                if (terms & 1) want = 1.5 * tanh;
                if (terms & 2)
                  want += core::load(bias.data(), bias_dtype, broadcast ? n * 40 + t : 24000 + n * 4000 + t * 100 + s);
                if (terms & 4) want -= slopes[static_cast<std::size_t>(6 + n)] * static_cast<double>(std::abs(s - (t + 9)));
                const bool kept = !(terms & 8) ||
                                  mask[static_cast<std::size_t>(broadcast ? 240 + n * 40 + t : 24000 + n * 4000 + t * 100 + s)];
                if (!kept || s < visible.begin || s >= visible.end) {
                  ASSERT_EQ(scores[at], -infinity);
                } else {
                  ASSERT_NEAR(scores[at], want, 4e-7 * (3 + std::abs(want) + (terms & 4 ? 40 : 0)));
                }
                if (terms & 1) {
                  ASSERT_NEAR(slope[at], 1 - tanh * tanh, 1e-6 * (1 - tanh * tanh) + 1e-7 * (1 - tanh * tanh < 1e-4));
                }
              }
            }
          }
        }
      }
    }
  }
}

TEST(Logits, SoftcapIsFaithfulFromTinyToHuge) {
  core::Problem p = small_problem();
  p.softcap = 1;
  const core::Buffers buffers{};
  const core::Sequence sequence = whole(p);
  for (const std::int64_t target : kTargets) {
    if (!(hwy::SupportedTargets() & target)) continue;
    double worst = 0;
    for (float x = 1e-30f; x < 1e30f; x *= 1.001f) {
      float row[16] = {x, -x};
      const Tile tile{p, buffers, sequence, 0, 0, 0, 0, 1, 1, 2};
      logit_kernels_on(target).finish(tile, row, 16, nullptr);
      const double want = std::tanh(static_cast<double>(x));
      worst = std::max(worst, std::abs(row[0] - want) / want);
      ASSERT_EQ(row[1], -row[0]);
    }
    EXPECT_LT(worst, 4 * 0x1p-24) << target;
    float special[16] = {0.0f, -0.0f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()};
    const Tile tile{p, buffers, sequence, 0, 0, 0, 0, 1, 1, 4};
    logit_kernels_on(target).finish(tile, special, 16, nullptr);
    EXPECT_EQ(special[0], 0);
    EXPECT_TRUE(std::signbit(special[1]) && special[1] == 0);
    EXPECT_EQ(special[2], 1);
    EXPECT_TRUE(std::isnan(special[3]));
  }
}

}  // namespace
}  // namespace dhyan::cpu

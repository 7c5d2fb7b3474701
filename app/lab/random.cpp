// SPDX-License-Identifier: Apache-2.0
// Threefry2x32-20: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011). The inverse error function: Giles,
// "Approximating the erfinv function" (2012), single precision. Every rounding below is part of the result: products and sums
// are fused exactly where XLA fuses them, and the build forbids the compiler to fuse others.
#include "lab/random.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>

namespace dhyan::lab {
namespace {

struct Block {
  std::uint32_t first, second;
};

Block threefry(RandomKey key, std::uint64_t counter) {
  constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const std::array<std::uint32_t, 3> keys = {key.high, key.low, key.high ^ key.low ^ 0x1BD11BDAu};
  std::uint32_t first = static_cast<std::uint32_t>(counter >> 32) + keys[0];
  std::uint32_t second = static_cast<std::uint32_t>(counter) + keys[1];
  for (unsigned group = 0; group < 5; ++group) {
    for (const int rotation : kRotations[group % 2]) {
      first += second;
      second = std::rotl(second, rotation) ^ first;
    }
    first += keys[(group + 1) % 3];
    second += keys[(group + 2) % 3] + group + 1;
  }
  return {first, second};
}

std::uint32_t random_bits(RandomKey key, std::uint64_t counter) {
  const Block block = threefry(key, counter);
  return block.first ^ block.second;
}

// Highest power first, each step one fused multiply-add.
template <std::size_t kTerms>
float polynomial(const std::array<float, kTerms>& coefficients, float x) {
  float sum = coefficients[0];
  for (std::size_t i = 1; i < kTerms; ++i) sum = std::fma(sum, x, coefficients[i]);
  return sum;
}

// log(1 + x) where 1 + x is near 1: a rational function.
float log1p_near(float x) {
  constexpr std::array<float, 7> kNumerator = {4.527000055531971e-05f, .4985410273075104f,  6.578732490539551f,
                                               29.91191864013672f,     60.949668884277344f, 57.11296463012695f,
                                               20.039552688598633f};
  constexpr std::array<float, 7> kDenominator = {1.f,
                                                 15.062909126281738f,
                                                 83.04756927490234f,
                                                 221.7624053955078f,
                                                 309.0987243652344f,
                                                 216.42788696289062f,
                                                 60.11865997314453f};
  const float square = x * x;
  const float ratio = polynomial(kNumerator, x) / polynomial(kDenominator, x);
  return x + std::fma(-square, .5f, (x * square) * ratio);
}

// log of 1 + x elsewhere: exponent and mantissa apart, as Cephes does.
float log1p_far(float x) {
  constexpr std::array<float, 3> kHigh = {0.07037683576345444f, -0.11514610052108765f, 0.11676998436450958f};
  constexpr std::array<float, 3> kMiddle = {-0.12420140951871872f, 0.14249323308467865f, -0.16668057441711426f};
  constexpr std::array<float, 3> kLow = {0.2000071406364441f, -0.24999994039535522f, 0.3333333134651184f};
  const std::int32_t bits = std::bit_cast<std::int32_t>(std::max(1.f + x, std::numeric_limits<float>::min()));
  float exponent = static_cast<float>((bits >> 23) - 127) + 1.f;
  float mantissa = std::bit_cast<float>((bits & static_cast<std::int32_t>(0x807FFFFF)) | 0x3F000000);
  const bool below = mantissa < 0.7071067690849304f;
  if (below) exponent -= 1.f;
  mantissa = (mantissa - 1.f) + (below ? mantissa : 0.f);
  const float square = mantissa * mantissa;
  const float cube = square * mantissa;
  const float inner = std::fma(cube, polynomial(kHigh, mantissa), polynomial(kMiddle, mantissa));
  const float series = std::fma(cube, std::fma(cube, inner, polynomial(kLow, mantissa)), exponent * -0.00021219444170128554f);
  return std::fma(exponent, 0.693359375f, series + std::fma(-square, .5f, mantissa));
}

float log1p_xla(float x) { return std::abs(x) < 0.4142135679721832f ? log1p_near(x) : log1p_far(x); }

float inverse_erf(float x) {
  constexpr std::array<float, 9> kCentre = {2.81022636e-08f, 3.43273939e-07f, -3.5233877e-06f, -4.39150654e-06f, 0.00021858087f,
                                            -0.00125372503f, -0.00417768164f, 0.246640727f,    1.50140941f};
  constexpr std::array<float, 9> kTail = {-0.000200214257f, 0.000100950558f, 0.00134934322f, -0.00367342844f, 0.00573950773f,
                                          -0.0076224613f,   0.00943887047f,  1.00167406f,    2.83297682f};
  if (std::abs(x) == 1.f) return x * std::numeric_limits<float>::infinity();
  const float w = -log1p_xla(x * -x);
  if (w < 5.f) return polynomial(kCentre, w - 2.5f) * x;
  return polynomial(kTail, std::sqrt(std::max(w, 0.f)) - 3.f) * x;
}

float round_bf16(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  return std::bit_cast<float>((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000u);
}

// A float of [1, 2) from the bits of its mantissa, less 1.
float unit_from(std::uint32_t mantissa) { return std::bit_cast<float>(mantissa | 0x3F800000u) - 1.f; }

float normal_one(std::uint32_t bits) {
  const float low = std::nextafter(-1.f, 0.f);
  const float uniform = std::max(low, unit_from(bits >> 9) * (1.f - low) + low);
  return 1.41421356f * inverse_erf(uniform);
}

float normal_bf16_one(std::uint32_t bits) {
  constexpr float kLow = -0.99609375f;
  const float unit = round_bf16(unit_from(((bits & 0xFF) >> 1) << 16));
  const float uniform = std::max(kLow, round_bf16(round_bf16(unit * 2.f) + kLow));
  return round_bf16(round_bf16(inverse_erf(uniform)) * 1.4140625f);
}

}  // namespace

RandomKey random_key(std::uint64_t seed) { return {static_cast<std::uint32_t>(seed >> 32), static_cast<std::uint32_t>(seed)}; }

std::vector<RandomKey> split(RandomKey key, int count) {
  std::vector<RandomKey> keys;
  for (int i = 0; i < count; ++i) {
    const Block block = threefry(key, static_cast<std::uint64_t>(i));
    keys.push_back({block.first, block.second});
  }
  return keys;
}

void normal(RandomKey key, std::span<float> values) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = normal_one(random_bits(key, i));
}

void normal_bf16(RandomKey key, std::span<std::uint16_t> values) {
  // Only 128 values exist: look them up instead of computing each again.
  std::array<std::uint16_t, 128> table;
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    table[i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(normal_bf16_one(i << 1)) >> 16);
  }
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = table[(random_bits(key, i) & 0xFF) >> 1];
}

}  // namespace dhyan::lab

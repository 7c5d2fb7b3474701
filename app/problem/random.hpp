// SPDX-License-Identifier: Apache-2.0
// Random inputs, the same for the same seed on every machine.
#pragma once

#include <cstdint>

#include "io/array.hpp"

namespace dhyan::app {

// splitmix64 (Steele, Lea, Flood 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t bits() {
    std::uint64_t x = state_ += 0x9E3779B97F4A7C15;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
    return x ^ (x >> 31);
  }
  // [0, 1)
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  bool chance(double probability) { return uniform() < probability; }
  // [low, high]
  std::int64_t integer(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(high - low + 1));
  }
  // Mean 0, variance 1, bell-shaped up to 3.46: four 16-bit uniforms added.
  float normal();
  template <class T, std::size_t N>
  T pick(const T (&values)[N]) {
    return values[bits() % N];
  }

 private:
  std::uint64_t state_;
};

// Normal numbers with the given spread around `centre`, in any floating type.
Array random_array(Element element, Shape shape, Random& random, double spread = 1, double centre = 0);

}  // namespace dhyan::app

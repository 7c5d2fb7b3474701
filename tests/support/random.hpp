// SPDX-License-Identifier: Apache-2.0
// Random inputs: fresh on every run, the same again with DHYAN_TEST_SEED.
#pragma once

#include <cstdint>
#include <string_view>

namespace dhyan::testing {

// This run's seed; every failure prints it.
std::uint64_t run_seed();

// splitmix64 (Steele, Lea, Flood 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  // This run's seed mixed with a name, so that one test alone sees what it sees among the others.
  explicit Random(std::string_view name);

  std::uint64_t bits() {
    std::uint64_t x = state_ += 0x9E3779B97F4A7C15;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
    return x ^ (x >> 31);
  }
  // [0, 1)
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  // [low, high]
  std::int64_t integer(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(high - low + 1));
  }
  // Mean 0, variance 1, bell-shaped up to 3.46: four uniform numbers added.
  double normal() {
    const std::uint64_t x = bits();
    double sum = 0;
    for (int i = 0; i < 4; ++i) sum += static_cast<double>((x >> (16 * i)) & 0xFFFF);
    return (sum / 65535 - 2) * 1.7320508075688772;
  }

 private:
  std::uint64_t state_;
};

}  // namespace dhyan::testing

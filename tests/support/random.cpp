// SPDX-License-Identifier: Apache-2.0
#include "support/random.hpp"

#include <cstdio>
#include <cstdlib>
#include <random>

namespace dhyan::testing {

std::uint64_t run_seed() {
  static const std::uint64_t seed = [] {
    std::uint64_t value = std::random_device{}();
    if (const char* text = std::getenv("DHYAN_TEST_SEED")) value = std::strtoull(text, nullptr, 0);
    std::fprintf(stderr, "seed of random inputs: %llu (set DHYAN_TEST_SEED to it to see the same again)\n",
                 static_cast<unsigned long long>(value));
    return value;
  }();
  return seed;
}

Random::Random(std::string_view name) : state_(run_seed()) {
  for (const char c : name) state_ = (state_ ^ static_cast<unsigned char>(c)) * 0x100000001B3;
}

}  // namespace dhyan::testing

// SPDX-License-Identifier: Apache-2.0
// What the steps share: random numbers, conversion to 16 bits and back, the largest difference, the median time of a call.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <dhyan/dhyan.hpp>
#include <random>
#include <vector>

// Mean 0, variance 1; the same numbers for the same seed.
inline std::vector<float> normal_numbers(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(static_cast<std::size_t>(count));
  for (float& x : numbers) x = normal(random);
  return numbers;
}

// Converts between float and dhyan::BFloat16, to nearest even.
template <class To, class From>
std::vector<To> converted(const std::vector<From>& from) {
  std::vector<To> to(from.size());
  const auto count = static_cast<std::int64_t>(from.size());
  dhyan::convert(dhyan::TensorView(from.data(), {count}), dhyan::TensorView(to.data(), {count}));
  return to;
}

inline double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(double{a[i]} - b[i]));
  return largest;
}

// The median over `repeats` calls, in milliseconds, after two that warm up caches and threads.
template <class Call>
double median_ms(int repeats, const Call& call) {
  std::vector<double> times;
  for (int i = -2; i < repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    call();
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    if (i >= 0) times.push_back(time.count());
  }
  std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());
  return times[static_cast<std::size_t>(repeats / 2)];
}

// SPDX-License-Identifier: Apache-2.0
#include "measure/statistics.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace dhyan::app {

double quantile(std::vector<double> samples, double fraction) {
  std::sort(samples.begin(), samples.end());
  const double at = fraction * static_cast<double>(samples.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, samples.size() - 1);
  return samples[below] + (at - static_cast<double>(below)) * (samples[above] - samples[below]);
}

Statistics statistics_of(const std::vector<double>& samples) {
  return {quantile(samples, 0.5), quantile(samples, 0.1), quantile(samples, 0.9)};
}

std::vector<double> time_calls(const std::function<void()>& call, const Repeats& repeats) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const auto in_time = [&] { return std::chrono::duration<double>(Clock::now() - begin).count() < repeats.most_seconds; };
  for (int i = 0; i < repeats.warmup && in_time(); ++i) call();
  std::vector<double> samples;
  for (int i = 0; i < repeats.repeats && (i == 0 || in_time()); ++i) {
    const auto start = Clock::now();
    call();
    samples.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  return samples;
}

}  // namespace dhyan::app

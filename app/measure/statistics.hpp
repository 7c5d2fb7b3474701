// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

namespace dhyan::app {

// Of a set of times: the middle and the spread.
struct Statistics {
  double median = 0;
  double p10 = 0;
  double p90 = 0;
};

// The value below which `fraction` of the samples lie, interpolated between neighbours. At least one sample.
double quantile(std::vector<double> samples, double fraction);
Statistics statistics_of(const std::vector<double>& samples);

struct Repeats {
  int warmup = 1;
  int repeats = 5;
  double most_seconds = 1e9;  // stops early, after one timed call at least
};

// Milliseconds of wall time of each timed call.
std::vector<double> time_calls(const std::function<void()>& call, const Repeats& repeats);

}  // namespace dhyan::app

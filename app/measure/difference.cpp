// SPDX-License-Identifier: Apache-2.0
#include "measure/difference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dhyan::app {
namespace {

// Floating arrays of any length, without a copy of the whole.
std::vector<double> doubles_at(const Array& array, std::int64_t begin, std::int64_t count) {
  const ElementInfo& info = info_of(array.element);
  const std::int64_t shape[] = {count};
  std::vector<double> values(static_cast<std::size_t>(count));
  convert(TensorView(array.data.data() + static_cast<std::size_t>(begin) * info.size, info.dtype, shape),
          TensorView(values.data(), DType::f64, shape));
  return values;
}

double share_of(double value, double limit) {
  if (value == 0) return 0;
  return limit > 0 ? value / limit : std::numeric_limits<double>::infinity();
}

}  // namespace

std::vector<double> doubles_of(const Array& array) { return doubles_at(array, 0, array.count()); }

Difference compare(const Array& got, const Expected& expected, const Limits& limits) {
  Difference result;
  double difference_squares = 0, expected_squares = 0, largest = 0;
  std::size_t at = 0;
  const auto block = [&](const std::vector<double>& values) {
    for (const double x : values) {
      const double want = expected.values[at++];
      if (!std::isfinite(want) || !std::isfinite(x)) {
        const bool same = x == want || (std::isnan(x) && std::isnan(want));
        result.misplaced += same ? 0 : 1;
        continue;
      }
      const double difference = std::abs(x - want);
      result.max_abs = std::max(result.max_abs, difference);
      largest = std::max(largest, std::abs(want));
      difference_squares += difference * difference;
      expected_squares += want * want;
    }
  };
  if (expected.everywhere) {
    constexpr std::int64_t step = 1 << 20;
    for (std::int64_t begin = 0; begin < got.count(); begin += step) {
      block(doubles_at(got, begin, std::min(step, got.count() - begin)));
    }
  } else {
    for (const std::int64_t start : expected.starts) block(doubles_at(got, start, expected.width));
  }
  const double norm = std::sqrt(difference_squares), expected_norm = std::sqrt(expected_squares);
  result.relative = expected_norm > 0 ? norm / expected_norm : norm > 0 ? std::numeric_limits<double>::infinity() : 0;
  result.share = std::max(share_of(norm, limits.relative * expected_norm + limits.noise * std::sqrt(static_cast<double>(at))),
                          share_of(result.max_abs, 8 * (limits.relative * largest + limits.noise) + limits.peak));
  return result;
}

Difference worst(const Difference& a, const Difference& b) {
  return {std::max(a.max_abs, b.max_abs), std::max(a.relative, b.relative), a.misplaced + b.misplaced,
          std::max(a.share, b.share)};
}

}  // namespace dhyan::app

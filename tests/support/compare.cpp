// SPDX-License-Identifier: Apache-2.0
#include "support/compare.hpp"

#include <cmath>
#include <sstream>

namespace dhyan::testing {
namespace {

std::string position(const Shape& shape, std::int64_t i) {
  std::ostringstream s;
  s << "at [" << i / (shape[1] * shape[2] * shape[3]) << ',' << i / (shape[2] * shape[3]) % shape[1] << ','
    << i / shape[3] % shape[2] << ',' << i % shape[3] << "] of " << shape[0] << 'x' << shape[1] << 'x' << shape[2] << 'x'
    << shape[3] << ": ";
  return s.str();
}

}  // namespace

Difference difference(const std::vector<double>& got, const std::vector<double>& want) {
  Difference d;
  if (got.size() != want.size()) {
    d.anomaly = std::to_string(got.size()) + " elements, not " + std::to_string(want.size());
    return d;
  }
  double want_square = 0;
  double got_square = 0;
  double product = 0;
  double square = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!std::isfinite(got[i]) || !std::isfinite(want[i])) {
      const bool same = got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]));
      if (!same && d.anomaly.empty()) {
        std::ostringstream s;
        s << got[i] << " where " << want[i] << " is right";
        d.anomaly = s.str();
        d.worst = static_cast<std::int64_t>(i);
      }
      continue;
    }
    const double error = got[i] - want[i];
    if (std::abs(error) > d.max_absolute) {
      d.max_absolute = std::abs(error);
      if (d.anomaly.empty()) d.worst = static_cast<std::int64_t>(i);
    }
    square += error * error;
    want_square += want[i] * want[i];
    got_square += got[i] * got[i];
    product += got[i] * want[i];
  }
  d.norm = std::sqrt(square);
  if (want_square > 0) d.relative = d.norm / std::sqrt(want_square);
  if (want_square > 0 && got_square > 0) d.cosine = product / std::sqrt(want_square) / std::sqrt(got_square);
  return d;
}

::testing::AssertionResult within(const Array& got, const Array& want, const Bound& bound) {
  const auto g = got.values();
  const auto w = want.values();
  const Difference d = difference(g, w);
  const auto fail = [&](std::int64_t at) {
    return ::testing::AssertionFailure() << (want.size() == 0 ? "" : position(want.shape(), at));
  };
  if (!d.anomaly.empty()) return fail(d.worst) << d.anomaly;
  std::int64_t over = 0;
  std::int64_t first = -1;
  for (std::size_t i = 0; i < g.size(); ++i) {
    if (!std::isfinite(g[i]) || std::abs(g[i] - w[i]) <= bound.element[i]) continue;
    if (over++ == 0) first = static_cast<std::int64_t>(i);
  }
  if (over > 0) {
    const auto i = static_cast<std::size_t>(first);
    return fail(first) << g[i] << " where " << w[i] << " is right, off by " << std::abs(g[i] - w[i]) << ", bound "
                       << bound.element[i] << "; " << over << " of " << g.size()
                       << " elements over their bound, relative error " << d.relative << ", cosine " << d.cosine;
  }
  if (!(d.norm <= bound.norm)) {
    return fail(d.worst) << "the differences' norm " << d.norm << " exceeds " << bound.norm << ", relative error " << d.relative
                         << ", cosine " << d.cosine;
  }
  return ::testing::AssertionSuccess() << "max|d| " << d.max_absolute << ", relative " << d.relative << ", cosine " << d.cosine;
}

::testing::AssertionResult same_bits(const Array& got, const Array& want) {
  if (got.present() != want.present()) return ::testing::AssertionFailure() << "one of the tensors is absent";
  if (!got.present()) return ::testing::AssertionSuccess();
  const auto g = got.element_bytes();
  const auto w = want.element_bytes();
  if (g.size() != w.size()) return ::testing::AssertionFailure() << g.size() << " bytes, not " << w.size();
  for (std::size_t i = 0; i < g.size(); ++i) {
    if (g[i] != w[i]) {
      return ::testing::AssertionFailure() << "bytes differ from byte " << i << " of " << g.size() << " on";
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace dhyan::testing

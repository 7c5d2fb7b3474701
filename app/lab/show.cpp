// SPDX-License-Identifier: Apache-2.0
#include "lab/show.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "measure/difference.hpp"

namespace dhyan::lab {

report::Cell count(std::int64_t n) { return {fmt::format("{}", n), static_cast<double>(n)}; }

report::Cell milliseconds(double ms) { return {report::milliseconds(ms), ms}; }

report::Cell microseconds(double us) { return {fmt::format("{:.1f}", us), us}; }

report::Cell difference(double value) { return {fmt::format("{:.2e}", value), value}; }

report::Cell fixed(double value) { return {fmt::format("{:.4f}", value), value}; }

report::Cell bytes(double value) {
  constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double shown = value;
  std::size_t unit = 0;
  for (; shown >= 1024 && unit + 1 < std::size(units); ++unit) shown /= 1024;
  return {fmt::format("{:.{}f} {}", shown, unit == 0 ? 0 : 1, units[unit]), value};
}

report::Cell times(double ratio) { return {fmt::format("{:.2f}×", ratio), ratio}; }

report::Cell median(const std::optional<report::Timing>& timing) {
  return timing ? milliseconds(timing->median_ms) : nothing();
}

void drop_empty_series(report::Chart& chart) {
  std::erase_if(chart.series, [](const report::Series& s) { return s.points.empty(); });
  if (std::ranges::find(chart.series, chart.baseline, &report::Series::key) == chart.series.end()) chart.baseline.clear();
}

double growth_exponent(std::span<const std::int64_t> lengths, std::span<const double> costs) {
  const std::size_t last = costs.size() - 1;
  const double range = std::log(static_cast<double>(lengths[last - 1]) / static_cast<double>(lengths[0]));
  return std::log((costs[last] - costs[last - 1]) / (costs[1] - costs[0])) / range;
}

double total_exponent(std::span<const std::int64_t> lengths, std::span<const double> costs) {
  if (!(costs.back() > 0)) return 0;
  return std::log(costs.back() / costs.front()) /
         std::log(static_cast<double>(lengths.back()) / static_cast<double>(lengths.front()));
}

void add_check(report::Step& step, std::string key, report::Text name, report::Cell value, std::string relation,
               report::Cell limit, bool holds, Gate gate) {
  const report::Verdict verdict = gate == Gate::informs ? report::Verdict::informative
                                  : holds               ? report::Verdict::passed
                                                        : report::Verdict::failed;
  step.checks.push_back({std::move(key), std::move(name), std::move(value), std::move(relation), std::move(limit), verdict});
}

Closeness closeness(const app::Array& a, const app::Array& b, double atol, double rtol) {
  const std::vector<double> left = app::doubles_of(a), right = app::doubles_of(b);
  Closeness result;
  for (std::size_t i = 0; i < left.size(); ++i) {
    const double off = std::abs(left[i] - right[i]);
    if (!(off <= atol + rtol * std::abs(right[i]))) result.close = false;
    if (std::isnan(off) || off > result.largest) result.largest = off;  // NaN stays
  }
  return result;
}

std::string_view dtype_name(app::Element element) {
  switch (element) {
    case app::Element::f64:
      return "float64";
    case app::Element::f32:
      return "float32";
    case app::Element::f16:
      return "float16";
    case app::Element::bf16:
      return "bfloat16";
    default:
      return app::info_of(element).name;
  }
}

}  // namespace dhyan::lab

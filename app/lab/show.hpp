// SPDX-License-Identifier: Apache-2.0
// How the lab writes numbers, and the checks it makes of them.
#pragma once

#include <span>
#include <string>

#include "problem/call.hpp"
#include "report/document.hpp"

namespace dhyan::lab {

inline report::Cell word(std::string text, std::string hi = "") { return {std::move(text), std::nullopt, std::move(hi)}; }
inline report::Cell word(const report::Text& text) { return word(text.en, text.hi); }
report::Cell count(std::int64_t n);
report::Cell milliseconds(double ms);   // "0.42", "0.0123"
report::Cell microseconds(double us);   // "12.3"
report::Cell difference(double value);  // "1.23e-04"
report::Cell fixed(double value);       // "1.2346"
report::Cell bytes(double value);       // "2.0 MiB"
report::Cell times(double ratio);       // "3.21×"
// A row that was not timed.
inline report::Cell nothing() { return {"–", std::nullopt}; }

// The median of a timing, or a dash.
report::Cell median(const std::optional<report::Timing>& timing);

// Leaves out the series that nothing was measured of, and the comparison with them.
void drop_empty_series(report::Chart& chart);

// The p of cost ~ T^p, at least three lengths that double: of what is added from length to length, so that what every thread or
// kernel needs at any length does not count; or of the whole (0 where there is no cost).
double growth_exponent(std::span<const std::int64_t> lengths, std::span<const double> costs);
double total_exponent(std::span<const std::int64_t> lengths, std::span<const double> costs);

enum class Gate { fails_the_lab, informs };
void add_check(report::Step& step, std::string key, report::Text name, report::Cell value, std::string relation,
               report::Cell limit, bool holds, Gate gate = Gate::fails_the_lab);

// The largest |a - b|, and whether |a - b| <= atol + rtol |b| everywhere. Both arrays of one shape and floating.
struct Closeness {
  double largest = 0;  // NaN where one is not a number
  bool close = true;
};
Closeness closeness(const app::Array& a, const app::Array& b, double atol, double rtol);

std::string_view dtype_name(app::Element element);  // as the codelab prints them: float32, bfloat16

}  // namespace dhyan::lab

// SPDX-License-Identifier: Apache-2.0
// Charts drawn with characters. No line is wider than `width` columns, which are 30 or more.
#pragma once

#include <string>

#include "report/document.hpp"

namespace dhyan::report {

// A line each, by bar_chart().
std::string plot_bars(const Chart& chart, int width);
// Markers joined by dotted lines, with values at the left, the measured x below and a legend.
std::string plot_lines(const Chart& chart, int width);
// A shade for each value.
std::string plot_heat(const Chart& chart, int width);

}  // namespace dhyan::report

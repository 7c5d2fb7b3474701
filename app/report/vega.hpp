// SPDX-License-Identifier: Apache-2.0
// Charts as Vega specifications: plain data that any Vega 5 draws. The page sets these signals; all begin as false:
//   hindi     words in Hindi              dark    colours for a dark background
//   speedup   ratios to the baseline      titled  with its title, for a picture that stands alone
// and switches the types of the scales x and y between linear and log; usermeta says how they begin.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "report/document.hpp"

namespace dhyan::report {

// A chart as one run has it. The name of the run stands in every label; it is empty where there is one run only.
struct RunChart {
  const Chart* chart = nullptr;
  std::string run;
};

// The charts are of one kind and of the same thing; titles and axes are the first one's.
nlohmann::ordered_json vega_specification(std::span<const RunChart> charts);

// Whether there is a value to draw: an interrupted run may have none.
bool has_values(std::span<const RunChart> charts);

// Whether logarithmic axes can show it: lines of which no value is zero or less.
bool can_be_logarithmic(std::span<const RunChart> charts);

// Valid UTF-8 without control characters, whatever came in; what is neither becomes U+FFFD.
std::string clean(const std::string& text);

}  // namespace dhyan::report

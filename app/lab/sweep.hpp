// SPDX-License-Identifier: Apache-2.0
// Times the same candidates over a range of sizes: a table, a chart of lines, all timings.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "lab/lab.hpp"

namespace dhyan::lab {

struct Sweep {
  std::string key;  // of table and chart
  report::Text title;
  report::Text chart_title;
  report::Text size_title;  // the first column and the x axis
  std::string_view letter;  // "T" in "T=128"
  std::string baseline;     // key of the candidate that speed-up is measured against; empty: none
  std::vector<std::int64_t> sizes;
  std::vector<Candidate> candidates;
  Causal causal = Causal::off;
  app::Repeats repeats;
  std::function<Inputs(std::int64_t size)> inputs;
};

struct SweepRow {
  std::int64_t size = 0;
  std::vector<std::optional<report::Timing>> timings;  // one a candidate
};

// `each` is called after every row with the row and its inputs, which are gone afterwards.
std::vector<SweepRow> run_sweep(Lab& lab, report::Step& step, const Sweep& sweep,
                                const std::function<void(const SweepRow&, const Inputs&)>& each = {});

// What steps 7 (b, c) and 9 sweep. `lab` must outlive them.
Sweep sequence_sweep(Lab& lab);
Sweep batch_sweep(Lab& lab);
Sweep module_length_sweep(Lab& lab);

}  // namespace dhyan::lab

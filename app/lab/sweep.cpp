// SPDX-License-Identifier: Apache-2.0
#include "lab/sweep.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "lab/show.hpp"

namespace dhyan::lab {
namespace {

report::Table empty_table(const Sweep& sweep) {
  report::Table table{.key = sweep.key, .title = sweep.title, .columns = {}, .rows = {}};
  table.columns.push_back({"size", sweep.size_title, true});
  for (const Candidate& c : sweep.candidates) {
    table.columns.push_back({std::string(c.key) + "_ms", {fmt::format("{} ms", c.label), ""}, true});
  }
  return table;
}

report::Chart empty_chart(const Sweep& sweep) {
  report::Chart chart;
  chart.key = sweep.key;
  chart.kind = report::ChartKind::lines;
  chart.title = sweep.chart_title;
  chart.x_title = sweep.size_title;
  chart.y_title = {"Median ms per call", "प्रति कॉल माध्यिका (ms)"};
  chart.unit = "ms";
  chart.better = report::Better::lower;
  chart.baseline = sweep.baseline;
  for (const Candidate& c : sweep.candidates) chart.series.push_back(series_of(c));
  return chart;
}

// What the lines end at, for those who do not see them.
report::Text alternative(const Sweep& sweep, const report::Chart& chart) {
  std::vector<std::string> ends;
  for (const report::Series& s : chart.series) {
    if (s.points.empty()) continue;
    ends.push_back(fmt::format("{} {:.2f} → {:.2f} ms", s.label, s.points.front().y, s.points.back().y));
  }
  const std::string list = fmt::format("{}", fmt::join(ends, "; "));
  return {fmt::format("Lines over {}={} to {}: {}.", sweep.letter, sweep.sizes.front(), sweep.sizes.back(), list),
          fmt::format("{}={} से {} तक रेखाएँ: {}।", sweep.letter, sweep.sizes.front(), sweep.sizes.back(), list)};
}

}  // namespace

std::vector<SweepRow> run_sweep(Lab& lab, report::Step& step, const Sweep& sweep,
                                const std::function<void(const SweepRow&, const Inputs&)>& each) {
  std::vector<SweepRow> rows;
  report::Table table = empty_table(sweep);
  report::Chart chart = empty_chart(sweep);
  const auto show = [&] {
    chart.alternative = alternative(sweep, chart);
    drop_empty_series(chart);
    step.blocks.emplace_back(std::move(table));
    if (!chart.series.empty()) step.blocks.emplace_back(std::move(chart));
  };
  try {
    app::Progress progress(static_cast<std::int64_t>(sweep.sizes.size() * sweep.candidates.size()));
    for (const std::int64_t size : sweep.sizes) {
      lab.pause_point();
      const std::string setting = fmt::format("{}={}", sweep.letter, size);
      const Inputs inputs = sweep.inputs(size);
      std::map<app::Element, app::Call> calls;
      SweepRow row{size, {}};
      std::vector<report::Cell> cells = {count(size)};
      std::vector<report::Timing> measured;
      for (std::size_t i = 0; i < sweep.candidates.size(); ++i) {
        const Candidate& candidate = sweep.candidates[i];
        progress.say(fmt::format("{} {}", candidate.label, setting));
        if (!calls.contains(candidate.element)) {
          calls.emplace(candidate.element, lab.call(inputs, candidate.element, sweep.causal));
        }
        row.timings.push_back(lab.time(step, candidate, calls.at(candidate.element), setting, sweep.repeats));
        const std::optional<report::Timing>& timing = row.timings.back();
        cells.push_back(median(timing));
        if (timing) {
          measured.push_back(*timing);
          chart.series[i].points.push_back({static_cast<double>(size), timing->median_ms, timing->p10_ms, timing->p90_ms});
        }
        progress.step();
      }
      table.rows.push_back(std::move(cells));
      note_unranked(step, measured);
      if (each) each(row, inputs);
      rows.push_back(std::move(row));
    }
  } catch (const Interrupted&) {
    show();
    throw;
  }
  show();
  return rows;
}

}  // namespace dhyan::lab

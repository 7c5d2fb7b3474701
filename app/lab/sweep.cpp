// SPDX-License-Identifier: Apache-2.0
#include "lab/sweep.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "lab/show.hpp"

namespace dhyan::lab {
namespace {

// On a GPU there is a second one, of the device alone: without what the host, or a module, adds to every call.
report::Table empty_table(const Sweep& sweep, bool on_device) {
  report::Table table{.key = sweep.key, .title = sweep.title, .columns = {}, .rows = {}};
  if (on_device) {
    table.key += "_device";
    table.title = {sweep.title.en + ", on the device", sweep.title.hi + ", केवल डिवाइस पर"};
  }
  table.columns.push_back({"size", sweep.size_title, true});
  for (const Candidate& c : sweep.candidates) {
    if (on_device && c.module) continue;
    table.columns.push_back({fmt::format("{}_{}", c.key, on_device ? "us" : "ms"),
                             {fmt::format("{} {}", c.label, on_device ? "µs" : "ms"), ""},
                             true});
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

report::Chart empty_device_chart(const Sweep& sweep) {
  report::Chart chart = empty_chart(sweep);
  chart.key += "_device";
  chart.title = {sweep.chart_title.en + ", on the device", sweep.chart_title.hi + ", केवल डिवाइस पर"};
  chart.y_title = {"Median µs per call", "प्रति कॉल माध्यिका (µs)"};
  chart.unit = "µs";
  chart.logarithmic = true;
  return chart;
}

// What the lines end at, for those who do not see them.
report::Text alternative(const Sweep& sweep, const report::Chart& chart) {
  std::vector<std::string> ends;
  for (const report::Series& s : chart.series) {
    if (s.points.empty()) continue;
    ends.push_back(fmt::format("{} {:.2f} → {:.2f} {}", s.label, s.points.front().y, s.points.back().y, chart.unit));
  }
  const std::string list = fmt::format("{}", fmt::join(ends, "; "));
  return {fmt::format("Lines over {}={} to {}: {}.", sweep.letter, sweep.sizes.front(), sweep.sizes.back(), list),
          fmt::format("{}={} से {} तक रेखाएँ: {}।", sweep.letter, sweep.sizes.front(), sweep.sizes.back(), list)};
}

}  // namespace

std::vector<SweepRow> run_sweep(Lab& lab, report::Step& step, const Sweep& sweep,
                                const std::function<void(const SweepRow&, const Inputs&)>& each) {
  std::vector<SweepRow> rows;
  report::Table table = empty_table(sweep, false), device_table = empty_table(sweep, true);
  report::Chart chart = empty_chart(sweep), device_chart = empty_device_chart(sweep);
  const auto show_both = [&](report::Table& rows_shown, report::Chart& lines) {
    lines.alternative = alternative(sweep, lines);
    drop_empty_series(lines);
    step.blocks.emplace_back(std::move(rows_shown));
    if (!lines.series.empty()) step.blocks.emplace_back(std::move(lines));
  };
  const auto show = [&] {
    show_both(table, chart);
    if (lab.on_gpu()) show_both(device_table, device_chart);
  };
  try {
    app::Progress progress(static_cast<std::int64_t>(sweep.sizes.size() * sweep.candidates.size()));
    for (const std::int64_t size : sweep.sizes) {
      lab.pause_point();
      const std::string setting = fmt::format("{}={}", sweep.letter, size);
      const Inputs inputs = sweep.inputs(size);
      std::map<app::Element, app::Call> calls;
      SweepRow row{size, {}};
      std::vector<report::Cell> cells = {count(size)}, device_cells = {count(size)};
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
        if (!candidate.module) device_cells.push_back(nothing());
        if (timing && timing->device_us) {
          device_cells.back() = microseconds(*timing->device_us);
          device_chart.series[i].points.push_back({static_cast<double>(size), *timing->device_us, std::nullopt, std::nullopt});
        }
        if (timing) {
          measured.push_back(*timing);
          chart.series[i].points.push_back({static_cast<double>(size), timing->median_ms, timing->p10_ms, timing->p90_ms});
        }
        progress.step();
      }
      table.rows.push_back(std::move(cells));
      device_table.rows.push_back(std::move(device_cells));
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

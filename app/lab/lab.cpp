// SPDX-License-Identifier: Apache-2.0
#include "lab/lab.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "device/stopwatch.hpp"

namespace dhyan::lab {

const Inputs& Lab::inputs() {
  if (settings_.given) return *settings_.given;
  if (!inputs_) inputs_ = normal_inputs(0, app::Element::f32, {batch, sequence, heads, head_dim});
  return *inputs_;
}

app::Call Lab::call(const Inputs& inputs, app::Element element, Causal causal) const {
  app::Call call = call_of(inputs, element, causal);
  place(call, settings_.device);
  return call;
}

app::Repeats Lab::repeats(int warmup, int repeats) const {
  constexpr double most_seconds = 10;  // a row; long sequences on a slow machine stop after fewer calls
  const int usual = settings_.quick ? std::max(3, repeats / 4) : repeats;
  return {warmup, settings_.repeats.value_or(usual), most_seconds};
}

void Lab::pause_point() const {
  if (stop_()) throw Interrupted{};
}

void Lab::note_refusal(report::Step& step, const Candidate& candidate, const std::string& setting,
                       const std::string& reason) const {
  // What holds whatever the sizes is said once, without them.
  const bool always = unavailable(candidate.implementation, settings_.device).has_value();
  add_refusal(step, candidate.label, always ? "" : setting, reason);
}

std::optional<report::Timing> Lab::time(report::Step& step, const Candidate& candidate, const app::Call& call,
                                        const std::string& setting, const app::Repeats& repeats) {
  try {
    if (const auto reason = refusal(candidate, call, settings_.device)) {
      note_refusal(step, candidate, setting, *reason);
      return std::nullopt;
    }
    step.timings.push_back(measure(step, candidate, call, setting, repeats));
  } catch (const Error& error) {
    if (error.status() != Status::out_of_memory) throw;
    note_refusal(step, candidate, setting, error.what());
    return std::nullopt;
  }
  return step.timings.back();
}

report::Timing Lab::measure(report::Step& step, const Candidate& candidate, const app::Call& call, const std::string& setting,
                            const app::Repeats& repeats) const {
  const app::Outputs outputs = make_outputs(call);
  const Prepared prepared = prepare(candidate, call, outputs);
  const std::vector<double> samples = app::time_calls(
      [&] {
        pause_point();
        prepared.run();
      },
      repeats);
  if (static_cast<int>(samples.size()) < repeats.repeats) {
    step.notes.push_back({fmt::format("{} ({}): {} timed calls instead of {}, since they took {:.0f} s.", candidate.label,
                                      setting, samples.size(), repeats.repeats, repeats.most_seconds),
                          fmt::format("{} ({}): {} की जगह {} कॉल नापी गईं, क्योंकि {:.0f} सेकंड पूरे हो गए।", candidate.label, setting,
                                      repeats.repeats, samples.size(), repeats.most_seconds)});
  }
  const app::Statistics statistics = app::statistics_of(samples);
  std::optional<double> device_us;
  if (on_gpu() && prepared.launch) {
    const app::DeviceTimes times = time_on_device(prepared.launch, settings_.device, repeats, app::Cache::as_it_is);
    device_us = app::statistics_of(times.device_us).median;
  }
  return {.series = std::string(candidate.key),
          .label = std::string(candidate.label),
          .setting = setting,
          .median_ms = statistics.median,
          .p10_ms = statistics.p10,
          .p90_ms = statistics.p90,
          .device_us = device_us,
          .samples_ms = samples};
}

void add_refusal(report::Step& step, std::string_view label, const std::string& setting, const std::string& reason) {
  const report::Text end = {fmt::format(" did not run: {}", reason), fmt::format(" नहीं चला: {}", reason)};
  const auto same = std::ranges::find_if(step.notes, [&](const report::Text& note) {
    return note.en.ends_with(end.en) &&
           (note.en == std::string(label) + end.en || note.en.starts_with(fmt::format("{} (", label)));
  });
  if (same == step.notes.end()) {
    const std::string begin = setting.empty() ? std::string(label) : fmt::format("{} ({})", label, setting);
    step.notes.push_back({begin + end.en, begin + end.hi});
  } else if (!setting.empty()) {
    for (const auto& [text, tail] : {std::pair{&same->en, &end.en}, {&same->hi, &end.hi}}) {
      text->insert(text->size() - tail->size() - 1, "; " + setting);  // before the bracket
    }
  }
}

void note_device_time(report::Step& step) {
  step.notes.push_back(
      {"ms is what a caller waits: starting the call, the device's work, hearing that it is done. Device µs is the "
       "device's work alone, of calls captured in a graph that follow one another.",
       "ms में वह पूरा समय है जो कॉल करने वाला प्रतीक्षा करता है: कॉल शुरू करना, डिवाइस का काम, और उसके पूरा होने की सूचना। डिवाइस µs में "
       "केवल डिवाइस का काम है, एक graph में दर्ज और एक के बाद एक चलती कॉलों से नापा हुआ।"});
}

void note_unranked(report::Step& step, const std::vector<report::Timing>& row) {
  std::vector<report::Timing> order = row;
  std::ranges::sort(order, {}, &report::Timing::median_ms);
  std::vector<std::string> english, hindi;
  for (std::size_t i = 1; i < order.size(); ++i) {
    const report::Timing &faster = order[i - 1], &slower = order[i];
    if (faster.p90_ms < slower.p10_ms) continue;
    english.push_back(fmt::format("{} and {}", faster.label, slower.label));
    hindi.push_back(fmt::format("{} और {}", faster.label, slower.label));
  }
  if (english.empty()) return;
  step.notes.push_back({fmt::format("{}: {} are not ranked; their ranges from p10 to p90 overlap.", order.front().setting,
                                    fmt::join(english, ", ")),
                        fmt::format("{}: {} में कौन तेज़ है, यह नहीं कहा जा सकता; उनके p10 से p90 तक के दायरे एक-दूसरे से मिलते हैं।",
                                    order.front().setting, fmt::join(hindi, ", "))});
}

}  // namespace dhyan::lab

// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lab/show.hpp"
#include "lab/steps.hpp"
#include "lab/sweep.hpp"

namespace dhyan::lab {
namespace {

constexpr Candidate candidates[] = {naive_f32, fused_f32, naive_bf16, fused_bf16, vendor_bf16};

// (a) Which head dimensions run, and how fast.
void vary_head_dim(Lab& lab, report::Step& step) {
  step.blocks.emplace_back(
      report::Table{.key = "11a_head_dim",
                    .title = {"Head dimension — B=4, T=128, N=8; ms per call", "head का आयाम — B=4, T=128, N=8; ms प्रति कॉल"},
                    .columns = {{"head_dim", {"HEAD_DIM", ""}, true}},
                    .rows = {}});
  auto& table = std::get<report::Table>(step.blocks.back());  // there already if the lab is interrupted
  for (const Candidate& c : candidates) {
    table.columns.push_back({std::string(c.key) + "_ms", {fmt::format("{} ms", c.label), ""}, true});
  }
  app::Progress progress(static_cast<std::int64_t>(4 * std::size(candidates)));
  for (const std::int64_t size : {32, 64, 128, 256}) {
    lab.pause_point();
    const Inputs inputs = normal_inputs(0, app::Element::f32, {batch, sequence, heads, size});
    std::vector<report::Cell> cells = {count(size)};
    for (const Candidate& c : candidates) {
      const std::string setting = fmt::format("H={}", size);
      progress.say(fmt::format("{} {}", c.label, setting));
      const auto timing = lab.time(step, c, lab.call(inputs, c.element), setting, lab.repeats(2, 20));
      const bool absent = unavailable(c.implementation, lab.settings().device).has_value();
      const report::Text why = absent ? report::Text{"not available", "उपलब्ध नहीं"} : report::Text{"refused", "मना किया"};
      cells.push_back(timing ? milliseconds(timing->median_ms) : word(why));
      progress.step();
    }
    table.rows.push_back(std::move(cells));
  }
}

constexpr double mebibyte = 1 << 20;

// What one implementation needs besides inputs and output, length by length.
struct Memory {
  Implementation implementation;
  std::vector<double> costs = {};
  bool refused = false;  // some length, or all

  bool known() const { return !refused && !costs.empty(); }

  // Adds a length, as a point too unless it is nothing: a logarithmic axis has no 0.
  report::Cell add(const app::Call& call, std::int64_t length, report::Series& series) {
    try {
      const app::Outputs outputs = make_outputs(call);
      costs.push_back(static_cast<double>(Plan::forward(forward_problem(call, outputs, implementation)).scratch_bytes()));
    } catch (const Error& error) {
      if (error.status() != Status::unsupported) throw;
      refused = true;
      return nothing();
    }
    if (costs.back() > 0) {
      series.points.push_back({static_cast<double>(length), costs.back() / mebibyte, std::nullopt, std::nullopt});
    }
    return bytes(costs.back());
  }
};

report::Chart memory_chart() {
  report::Chart chart;
  chart.key = "11b_memory";
  chart.kind = report::ChartKind::lines;
  chart.title = {"Memory besides inputs and output, f32", "इनपुट और आउटपुट के अलावा मेमोरी, f32"};
  chart.x_title = {"Seq len", "अनुक्रम की लंबाई"};
  chart.y_title = {"MiB", ""};
  chart.unit = "MiB";
  chart.better = report::Better::lower;
  chart.logarithmic = true;
  chart.series = {series_of(naive_f32), series_of(fused_f32)};
  return chart;
}

// (b) What a longer sequence costs in memory, and what fusing saves in time.
void lengthen(Lab& lab, report::Step& step) {
  step.blocks.emplace_back(report::Table{
      .key = "11b_length",
      .title = {"Longer sequences — B=4, N=8, H=64", "और लंबे अनुक्रम — B=4, N=8, H=64"},
      .columns = {{"size", {"Seq len", "अनुक्रम की लंबाई"}, true},
                  {"naive_bytes", {"Naive scratch (weights)", "naive की अस्थायी मेमोरी (भार)"}, true},
                  {"fused_bytes", {"Fused scratch", "fused की अस्थायी मेमोरी"}, true},
                  {"fused_f32", {"Speed-up of fused f32 over naive f32", "fused f32: naive f32 से कितने गुना तेज़"}, true},
                  {"fused_bf16", {"Speed-up of fused bf16 over naive bf16", "fused bf16: naive bf16 से कितने गुना तेज़"}, true},
                  {"vendor_bf16", {"Speed-up of vendor bf16 over naive bf16", "vendor bf16: naive bf16 से कितने गुना तेज़"}, true}},
      .rows = {}});
  auto& table = std::get<report::Table>(step.blocks.back());
  report::Chart chart = memory_chart();
  std::vector<std::int64_t> lengths = {256, 512, 1024, 2048};
  if (lab.settings().quick) {
    lengths = {128, 256, 512};
  } else if (lab.on_gpu()) {
    lengths.push_back(4096);
  }
  Memory naive{.implementation = Implementation::naive}, fused{.implementation = Implementation::fused};
  {
    app::Progress progress(static_cast<std::int64_t>(lengths.size() * std::size(candidates)));
    for (const std::int64_t length : lengths) {
      lab.pause_point();
      const Inputs inputs = normal_inputs(0, app::Element::f32, {batch, length, heads, head_dim});
      const app::Call call = lab.call(inputs, app::Element::f32);
      const report::Cell naive_bytes = naive.add(call, length, chart.series[0]);
      const report::Cell fused_bytes = fused.add(call, length, chart.series[1]);
      std::vector<std::optional<report::Timing>> timings;
      for (const Candidate& c : candidates) {
        const std::string setting = fmt::format("T={}", length);
        progress.say(fmt::format("{} {}", c.label, setting));
        timings.push_back(lab.time(step, c, lab.call(inputs, c.element), setting, lab.repeats(2, 20)));
        progress.step();
      }
      const auto speedup = [&](std::size_t slow, std::size_t fast) {
        return timings[slow] && timings[fast] ? times(timings[slow]->median_ms / timings[fast]->median_ms) : nothing();
      };
      table.rows.push_back({count(length), naive_bytes, fused_bytes, speedup(0, 1), speedup(2, 3), speedup(2, 4)});
    }
  }
  std::vector<std::string> english, hindi;
  for (const auto& [name, memory] : {std::pair{"naive", &naive}, {"fused", &fused}}) {
    if (!memory->known()) continue;
    const double first = memory->costs.front() / mebibyte, last = memory->costs.back() / mebibyte;
    english.push_back(fmt::format("that of {} goes from {:.2f} to {:.2f} MiB", name, first, last));
    hindi.push_back(fmt::format("{} की {:.2f} से {:.2f} MiB तक जाती है", name, first, last));
  }
  chart.alternative = {fmt::format("Memory over T={} to {}: {}.", lengths.front(), lengths.back(), fmt::join(english, ", ")),
                       fmt::format("T={} से {} तक मेमोरी: {}।", lengths.front(), lengths.back(), fmt::join(hindi, ", "))};
  drop_empty_series(chart);
  if (!chart.series.empty()) step.blocks.emplace_back(std::move(chart));
  constexpr double naive_least = 1.8, fused_most = 1;
  const auto power = [](double exponent) { return report::Cell{fmt::format("T^{:.2f}", exponent), exponent}; };
  if (naive.known()) {
    const double exponent = growth_exponent(lengths, naive.costs);
    add_check(step, "11b_naive_growth", {"Naive's memory grows as T²", "naive की मेमोरी T² की तरह बढ़ती है"}, power(exponent), "≥",
              {"T^1.8", naive_least}, exponent >= naive_least);
  }
  if (fused.known()) {
    const double exponent = total_exponent(lengths, fused.costs);
    add_check(step, "11b_fused_growth", {"Fused's memory grows as T at most", "fused की मेमोरी अधिक-से-अधिक T की तरह बढ़ती है"},
              power(exponent), "≤", {"T^1", fused_most}, exponent <= fused_most);
  }
}

// (c) What a model that generates text keeps of earlier tokens.
void size_cache(report::Step& step) {
  constexpr double layers = 32, width = 128, element_bytes = 2;
  report::Table table{
      .key = "11c_kv_cache",
      .title = {"KV cache — 32 layers, H=128, bf16, 8 query heads", "KV cache — 32 परतें, H=128, bf16, 8 query heads"},
      .columns = {{"pattern", {"Pattern", "रूप"}},
                  {"key_heads", {"K", ""}, true},
                  {"bytes_per_token", {"Bytes per token", "प्रति टोकन बाइट"}, true},
                  {"bytes_4k", {"4k tokens", "4k टोकन"}, true},
                  {"bytes_32k", {"32k tokens", "32k टोकन"}, true}},
      .rows = {}};
  report::Chart chart;
  chart.key = "11c_kv_cache";
  chart.kind = report::ChartKind::bars;
  chart.title = {"KV cache (MiB)", ""};
  chart.y_title = {"MiB", ""};
  chart.unit = "MiB";
  chart.better = report::Better::lower;
  std::string list;
  for (const auto& [name, key_heads] : {std::pair{"MHA", 8}, {"GQA", 2}, {"MQA", 1}}) {
    const double token = 2 * layers * key_heads * width * element_bytes;
    table.rows.push_back({word(name), count(key_heads), bytes(token), bytes(token * 4096), bytes(token * 32768)});
    for (const auto& [label, tokens] : {std::pair{"4k", 4096}, {"32k", 32768}}) {
      const double size = token * tokens / mebibyte;
      chart.series.push_back({.key = fmt::format("{}_{}", name, label),
                              .label = fmt::format("{}, {} tokens", name, label),
                              .colour = "#0969da",
                              .marker = report::Marker::circle,
                              .points = {{0, size, std::nullopt, std::nullopt}}});
      list += fmt::format("{}{} at {} tokens {:.0f} MiB", list.empty() ? "" : ", ", name, label, size);
    }
  }
  chart.alternative = {"Bars: " + list + ".", "पट्टियाँ: " + list + "।"};
  step.blocks.emplace_back(std::move(table));
  step.blocks.emplace_back(std::move(chart));
}

void run(Lab& lab, report::Step& step) {
  vary_head_dim(lab, step);
  lengthen(lab, step);
  size_cache(step);
}

}  // namespace

StepEntry next_steps() {
  return {
      11,
      {"Next steps", "आगे के कदम"},
      {"Three things to try next: other head dimensions (a kernel that cannot take one refuses it), longer sequences (where "
       "the "
       "matrix of weights becomes the largest thing in memory), and the memory that generating text needs for keys and values.",
       "आगे आज़माने की तीन बातें: head के दूसरे आयाम (जो कर्नल किसी आयाम पर नहीं चल सकता, वह मना करता है), और लंबे अनुक्रम (जहाँ भारों का "
       "मैट्रिक्स "
       "मेमोरी की सबसे बड़ी "
       "चीज़ बन जाता है), और पाठ लिखते समय keys और values के लिए आवश्यक मेमोरी।"},
      {"It varies head dimension and length; the tensors given have one of each.",
       "यह चरण head का आयाम और लंबाई बदलता है; दिए गए टेंसरों में दोनों तय हैं।"},
      run};
}

}  // namespace dhyan::lab

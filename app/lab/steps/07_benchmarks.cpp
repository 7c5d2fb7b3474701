// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "lab/show.hpp"
#include "lab/steps.hpp"
#include "lab/sweep.hpp"

namespace dhyan::lab {
namespace {

// 7a: every candidate at one shape.
void time_all(Lab& lab, report::Step& step) {
  std::vector<Candidate> candidates = {naive_f32, naive_bf16, fused_f32, fused_bf16, vendor_bf16};
  if (lab.on_gpu()) candidates.insert(candidates.end(), {fused_f16, vendor_f16});
  const app::Shape& shape = lab.inputs().query.shape;
  const std::string sizes = fmt::format("B={}, T={}, N={}, H={}", shape[0], shape[1], shape[2], shape[3]);
  report::Table table{.key = "07a_latency",
                      .title = {"Attention timing — " + sizes, "अटेंशन का समय — " + sizes},
                      .columns = {{"implementation", {"Implementation", "तरीक़ा"}},
                                  {"median_ms", {"Median ms/call", "माध्यिका ms/कॉल"}, true},
                                  {"device_us", {"Device µs", "डिवाइस पर µs"}, true},
                                  {"speedup", {"Speed-up over naive f32", "naive f32 से कितने गुना तेज़"}, true}},
                      .rows = {}};
  report::Chart chart;
  chart.key = "07a_latency";
  chart.kind = report::ChartKind::bars;
  chart.title = {"Attention latency (ms per call)", "अटेंशन में लगा समय (ms प्रति कॉल)"};
  chart.y_title = {"Median ms per call", "प्रति कॉल माध्यिका (ms)"};
  chart.unit = "ms";
  chart.better = report::Better::lower;
  chart.baseline = naive_f32.key;
  std::vector<report::Timing> measured;
  std::string list;
  const auto show = [&] {
    drop_empty_series(chart);
    chart.alternative = {"Bars: " + list + ".", "पट्टियाँ: " + list + "।"};
    step.blocks.emplace_back(std::move(table));
    if (!chart.series.empty()) step.blocks.emplace_back(std::move(chart));
  };
  try {
    for (const Candidate& candidate : candidates) {
      const app::Call call = lab.call(lab.inputs(), candidate.element);
      const auto timing = lab.time(step, candidate, call, sizes, lab.repeats(3, 50));
      table.rows.push_back({word(std::string(candidate.label)), median(timing), nothing(), nothing()});
      if (!timing) continue;
      measured.push_back(*timing);
      if (timing->device_us) table.rows.back()[2] = microseconds(*timing->device_us);
      if (measured.front().series == naive_f32.key) {
        table.rows.back()[3] = times(measured.front().median_ms / timing->median_ms);
      }
      report::Series series = series_of(candidate);
      series.points.push_back({0, timing->median_ms, timing->p10_ms, timing->p90_ms});
      chart.series.push_back(std::move(series));
      list += fmt::format("{}{} {} ms", list.empty() ? "" : ", ", candidate.label, milliseconds(timing->median_ms).text);
    }
  } catch (const Interrupted&) {
    show();
    throw;
  }
  show();
  note_unranked(step, measured);
}

std::vector<std::int64_t> sequence_lengths(Lab& lab) {
  constexpr std::int64_t shortest = 64, usual = 1024, quick = 512, gpu = 4096;
  const Settings& settings = lab.settings();
  std::int64_t most = settings.max_seq.value_or(settings.quick ? quick : lab.on_gpu() ? gpu : usual);
  if (settings.given) most = std::min({most, settings.given->query.shape[1], settings.given->key.shape[1]});
  std::vector<std::int64_t> lengths;
  for (std::int64_t length = shortest; length < most; length *= 2) lengths.push_back(length);
  lengths.push_back(most);
  return lengths;
}

// An order of the two that the clock shows, or none where their spreads overlap.
void check_order(Lab& lab, report::Step& step, const SweepRow& row, const Inputs& inputs, const Sweep& sweep) {
  constexpr std::int64_t from = 512;
  std::optional<report::Timing> naive = row.timings[0], fused = row.timings[1];
  if (row.size < from || !naive || !fused) return;
  if (fused->median_ms > naive->median_ms) {  // once more, before anything is said of it
    const std::string setting = fmt::format("{}={} again", sweep.letter, row.size);
    const app::Call call = lab.call(inputs, app::Element::f32);
    naive = lab.time(step, naive_f32, call, setting, sweep.repeats);
    fused = lab.time(step, fused_f32, call, setting, sweep.repeats);
  }
  const bool apart = fused->p90_ms < naive->p10_ms || naive->p90_ms < fused->p10_ms;
  const double ratio = naive->median_ms / fused->median_ms;
  report::Cell value = times(ratio);
  if (!apart) value.text += " (not ranked)";
  add_check(step, fmt::format("07b_order_{}", row.size),
            {fmt::format("Fused f32 is at least as fast as naive at T={}", row.size),
             fmt::format("T={} पर fused f32 कम-से-कम naive जितना तेज़ है", row.size)},
            std::move(value), "≥", {"1×", 1.0}, ratio >= 1, Gate::informs);
}

}  // namespace

Sweep sequence_sweep(Lab& lab) {
  Sweep sweep;
  const app::Shape& shape = lab.inputs().query.shape;
  const std::string sizes = fmt::format("B={}, N={}, H={}", shape[0], shape[2], shape[3]);
  sweep.key = "07b_sequence";
  sweep.title = {"Sequence-length sweep — " + sizes, "अनुक्रम की लंबाई के अनुसार समय — " + sizes};
  sweep.chart_title = {"Attention latency vs sequence length", "अटेंशन का समय बनाम अनुक्रम की लंबाई"};
  sweep.size_title = {"Seq len", "अनुक्रम की लंबाई"};
  sweep.letter = "T";
  sweep.baseline = naive_f32.key;
  sweep.sizes = sequence_lengths(lab);
  sweep.candidates = {naive_f32, fused_f32, fused_bf16, vendor_bf16};
  sweep.repeats = lab.repeats(2, 20);
  sweep.inputs = [&lab](std::int64_t length) {
    if (lab.settings().given) return prefix(*lab.settings().given, length, length);
    return normal_inputs(static_cast<std::uint64_t>(length), app::Element::f32, {batch, length, heads, head_dim});
  };
  return sweep;
}

Sweep batch_sweep(Lab& lab) {
  constexpr std::int64_t length = 256;
  constexpr std::uint64_t first_seed = 100;
  Sweep sweep;
  sweep.key = "07c_batch";
  sweep.title = {"Batch-size sweep — T=256, N=8, H=64", "बैच के आकार के अनुसार समय — T=256, N=8, H=64"};
  sweep.chart_title = {"Attention latency vs batch size", "अटेंशन का समय बनाम बैच का आकार"};
  sweep.size_title = {"Batch size", "बैच का आकार"};
  sweep.letter = "B";
  sweep.sizes = lab.settings().quick ? std::vector<std::int64_t>{1, 2, 4} : std::vector<std::int64_t>{1, 2, 4, 8, 16};
  sweep.candidates = {fused_f32, fused_bf16, vendor_bf16};
  sweep.repeats = lab.repeats(2, 20);
  sweep.inputs = [](std::int64_t size) {
    return normal_inputs(first_seed + static_cast<std::uint64_t>(size), app::Element::f32, {size, length, heads, head_dim});
  };
  return sweep;
}

namespace {

void run(Lab& lab, report::Step& step) {
  if (lab.on_gpu()) note_device_time(step);
  time_all(lab, step);
  const Sweep lengths = sequence_sweep(lab);
  run_sweep(lab, step, lengths,
            [&](const SweepRow& row, const Inputs& inputs) { check_order(lab, step, row, inputs, lengths); });
  if (lab.settings().given) {
    step.notes.push_back({"The batch-size sweep is left out: it needs batches of its own, not the tensors given.",
                          "बैच-आकार वाला भाग छोड़ दिया गया: उसे दिए गए टेंसर नहीं, अपने बैच चाहिए।"});
  } else {
    run_sweep(lab, step, batch_sweep(lab));
  }
}

}  // namespace

StepEntry benchmarks() {
  return {
      7,
      {"Attention timing", "अटेंशन का समय"},
      {"What fusing buys. Each number is the median of many calls, each timed until its result is there; inputs are made "
       "beforehand. Naive and fused do the same arithmetic, but naive writes and reads the matrix of weights, which outgrows "
       "the caches as T rises; fused bf16 halves the bytes and, where the processor has units for it, the time.",
       "fused करने से क्या मिलता है। हर संख्या कई कॉलों की माध्यिका है; हर कॉल परिणाम आने तक नापी गई है और इनपुट पहले से तैयार हैं। naive और "
       "fused एक ही गणना करते "
       "हैं, पर naive भारों का मैट्रिक्स लिखता और फिर पढ़ता है, जो T बढ़ने पर कैश में नहीं समाता; bf16 में बाइट आधे लगते हैं और, जिस प्रोसेसर में उसकी "
       "इकाइयाँ हों, समय भी।"},
      {},
      run};
}

}  // namespace dhyan::lab

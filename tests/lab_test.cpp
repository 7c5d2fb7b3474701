// SPDX-License-Identifier: Apache-2.0
// The steps of the lab: their words, their data, and that their checks can fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "io/load.hpp"
#include "lab/encoder_head.hpp"
#include "lab/run.hpp"
#include "lab/show.hpp"
#include "lab/steps.hpp"
#include "lab/sweep.hpp"

namespace dhyan::lab {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;

bool holds_devanagari(const std::string& text) { return text.find("\xe0\xa4") != std::string::npos; }

// What the command fills in before the steps run.
report::Document headed() {
  report::Document document;
  document.created = "2026-11-30T20:15:00Z";
  document.version = dhyan_version();
  document.device = "cpu";
  document.machine = nlohmann::ordered_json::object();
  return document;
}

std::uint32_t checksum_of(const app::Array& array) {
  return static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(array.data.data()), array.data.size()));
}

report::Document run_only(
    std::vector<int> steps, const std::function<bool()>& stop = [] { return false; }) {
  Settings settings;
  settings.steps = std::move(steps);
  settings.quick = true;
  settings.repeats = 1;
  settings.max_seq = 64;
  report::Document document = headed();
  run_steps(
      settings, document, [](const report::Step&) {}, stop);
  return document;
}

std::vector<report::Chart> charts_of(const report::Step& step) {
  std::vector<report::Chart> charts;
  for (const report::Block& block : step.blocks) {
    if (const auto* chart = std::get_if<report::Chart>(&block)) charts.push_back(*chart);
  }
  return charts;
}

const report::Check& check_of(const report::Step& step, const std::string& key) {
  const auto found = std::ranges::find(step.checks, key, &report::Check::key);
  if (found == step.checks.end()) throw std::out_of_range("no check " + key);
  return *found;
}

TEST(LabSteps, AreNumberedFromZeroAndSpeakBothLanguages) {
  int number = 0;
  for (const StepEntry& step : steps()) {
    SCOPED_TRACE(number);
    EXPECT_EQ(step.number, number++);
    for (const report::Text& text : {step.title, step.explanation}) {
      EXPECT_THAT(text.en, Not(IsEmpty()));
      EXPECT_FALSE(holds_devanagari(text.en));
      EXPECT_TRUE(holds_devanagari(text.hi));
    }
    EXPECT_EQ(step.own_inputs_only.en.empty(), step.own_inputs_only.hi.empty());
  }
  EXPECT_EQ(number, 13);
}

TEST(LabSteps, PassOnThisMachineAndKeepTheirKeysApart) {
  std::vector<int> all;
  for (const StepEntry& step : steps()) all.push_back(step.number);
  const report::Document document = run_only(all);
  EXPECT_TRUE(document.complete);
  EXPECT_EQ(report::broken_rule(document), "");
  ASSERT_EQ(document.steps.size(), steps().size());
  std::set<std::string> checks, tables, charts;
  for (const report::Step& step : document.steps) {
    SCOPED_TRACE(step.number);
    for (const report::Check& check : step.checks) {
      EXPECT_TRUE(checks.insert(check.key).second) << check.key;
      EXPECT_NE(check.verdict, report::Verdict::failed) << check.key << ": " << check.value.text;
    }
    for (const report::Block& block : step.blocks) {
      if (const auto* table = std::get_if<report::Table>(&block)) {
        EXPECT_TRUE(tables.insert(table->key).second) << table->key;
        for (const auto& row : table->rows) EXPECT_EQ(row.size(), table->columns.size()) << table->key;
      }
      if (const auto* chart = std::get_if<report::Chart>(&block)) {
        EXPECT_TRUE(charts.insert(chart->key).second) << chart->key;
        EXPECT_THAT(chart->alternative.en, Not(IsEmpty()));
        EXPECT_TRUE(holds_devanagari(chart->alternative.hi)) << chart->key;
      }
    }
    for (const report::Timing& timing : step.timings) {
      EXPECT_THAT(timing.samples_ms, Not(IsEmpty()));
      EXPECT_GT(timing.median_ms, 0);
    }
  }
  // The last step shows every check of the others.
  const auto& last = std::get<report::Table>(document.steps.back().blocks.front());
  EXPECT_EQ(last.rows.size(), checks.size());
}

// The codelab's own titles; a table may have more columns.
TEST(LabTables, HaveTheColumnsOfTheCodelab) {
  const std::map<std::string, std::vector<std::string>> expected = {
      {"02_inputs", {"Array", "Shape", "Dtype", "Layout"}},
      {"03_naive", {"Output shape", "Output dtype"}},
      {"04_fused", {"Output shape", "Output dtype", "Max abs naive − fused", "Outputs close"}},
      {"06_causal", {"Position", "Max diff (causal vs full)", "Expected"}},
      {"07a_latency", {"Implementation", "Median ms/call"}},
      {"07b_sequence", {"Seq len", "naive f32 ms", "fused f32 ms", "fused bf16 ms", "vendor bf16 ms"}},
      {"07c_batch", {"Batch size", "fused f32 ms", "fused bf16 ms", "vendor bf16 ms"}},
      {"08_variants", {"Pattern", "Q shape", "K shape", "V shape", "Output shape"}},
      {"09_module", {"Seq len", "fused bf16 ms", "vendor bf16 ms", "DotProductAttention bf16 ms"}}};
  std::size_t found = 0;
  for (const report::Step& step : run_only({2, 3, 4, 6, 7, 8, 9}).steps) {
    for (const report::Block& block : step.blocks) {
      const auto* table = std::get_if<report::Table>(&block);
      if (table == nullptr) continue;
      std::vector<std::string> titles;
      for (const report::Column& column : table->columns) titles.push_back(column.title.en);
      ASSERT_TRUE(expected.contains(table->key)) << table->key;
      EXPECT_THAT(titles, IsSupersetOf(expected.at(table->key))) << table->key;
      ++found;
    }
  }
  EXPECT_EQ(found, expected.size());
}

TEST(LabRepeats, AreTheStepsOwnFewerInAQuickRunOrThoseAsked) {
  Settings settings;
  const std::vector<report::Step> none;
  Lab lab(settings, none, [] { return false; });
  EXPECT_EQ(lab.repeats(3, 50).warmup, 3);
  EXPECT_EQ(lab.repeats(3, 50).repeats, 50);
  settings.quick = true;
  EXPECT_EQ(lab.repeats(3, 50).repeats, 12);
  EXPECT_EQ(lab.repeats(3, 8).repeats, 3);
  settings.repeats = 7;
  EXPECT_EQ(lab.repeats(3, 50).repeats, 7);
  EXPECT_EQ(lab.repeats(3, 50).warmup, 3);
}

TEST(LabSteps, ThatAreInterruptedKeepWhatTheyHad) {
  int asked = 0;
  // Step 2 asks once before it begins; step 7 asks before every call.
  const report::Document document = run_only({2, 7, 8}, [&] { return ++asked > 8; });
  EXPECT_FALSE(document.complete);
  EXPECT_EQ(report::broken_rule(document), "");
  ASSERT_EQ(document.steps.size(), 2u);
  EXPECT_EQ(document.steps[0].outcome, report::Outcome::done);
  EXPECT_EQ(document.steps[1].outcome, report::Outcome::interrupted);
  EXPECT_THAT(document.steps[1].reason.en, HasSubstr("interrupted"));
  EXPECT_THAT(document.steps[1].timings, Not(IsEmpty()));
  EXPECT_THAT(document.steps[1].blocks, Not(IsEmpty()));
}

TEST(LabSteps, ThatAreInterruptedKeepTheRowsOfTheirTables) {
  int asked = 0;
  // Step 11 asks once before it begins; its first row takes five asks and a call or more of each of four candidates.
  const report::Document document = run_only({11}, [&] { return ++asked > 20; });
  ASSERT_FALSE(document.complete);
  EXPECT_EQ(report::broken_rule(document), "");
  const auto& blocks = document.steps.at(0).blocks;
  ASSERT_THAT(blocks, Not(IsEmpty()));
  EXPECT_THAT(std::get<report::Table>(blocks[0]).rows, Not(IsEmpty()));
}

TEST(LabSteps, WithGivenTensorsSkipWhatNeedsOthers) {
  Settings settings;
  settings.steps = {2, 3, 4, 6, 7, 8, 9, 11};
  settings.repeats = 1;
  settings.given = Inputs{normal_array(random_key(1), app::Element::bf16, {2, 80, 4, 16}),
                          normal_array(random_key(2), app::Element::bf16, {2, 70, 2, 16}),
                          normal_array(random_key(3), app::Element::bf16, {2, 70, 2, 16})};
  report::Document document = headed();
  run_steps(
      settings, document, [](const report::Step&) {}, [] { return false; });
  ASSERT_TRUE(document.complete);
  EXPECT_EQ(report::broken_rule(document), "");
  for (const report::Step& step : document.steps) {
    SCOPED_TRACE(step.number);
    const bool skipped = step.number == 8 || step.number == 11;
    EXPECT_EQ(step.outcome, skipped ? report::Outcome::skipped : report::Outcome::done);
    EXPECT_EQ(step.reason.en.empty(), !skipped);
    for (const report::Check& check : step.checks) EXPECT_NE(check.verdict, report::Verdict::failed) << check.key;
  }
  EXPECT_EQ(check_of(document.steps[2], "04_close").verdict, report::Verdict::informative);
  EXPECT_EQ(check_of(document.steps[2], "04_fused_bound").verdict, report::Verdict::passed);
  EXPECT_EQ(check_of(document.steps[3], "06_last").verdict, report::Verdict::informative);
  // Prefixes of what was given: 64, and all that queries and keys share.
  const report::Step& timing = document.steps[4];
  const report::Chart sweep = charts_of(timing).at(1);
  ASSERT_EQ(sweep.series.front().points.size(), 2u);
  EXPECT_EQ(sweep.series.front().points[0].x, 64);
  EXPECT_EQ(sweep.series.front().points[1].x, 70);
}

// Sizes and seeds of lab.md's sweeps, by what they draw: the digests stand in lab_random_test.cpp.
TEST(LabSweeps, DrawTheCodelabsInputsAtTheCodelabsSizes) {
  Settings settings;
  report::Document document = headed();
  Lab lab(settings, document.steps, [] { return false; });
  struct Row {
    Sweep sweep;
    std::vector<std::int64_t> sizes;
    std::int64_t at;
    app::Shape shape;
    std::uint32_t query_crc, value_crc;
  };
  const Row rows[] = {{sequence_sweep(lab), {64, 128, 256, 512, 1024}, 512, {4, 512, 8, 64}, 0x0618BD23, 0x4C809EB8},
                      {batch_sweep(lab), {1, 2, 4, 8, 16}, 8, {8, 256, 8, 64}, 0xD0B96C37, 0x8C70182E},
                      {module_length_sweep(lab), {128, 256, 512, 1024, 2048}, 1024, {4, 1024, 8, 64}, 0xAA7AF893, 0xACA2E5C1}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.sweep.key);
    EXPECT_EQ(row.sweep.sizes, row.sizes);
    EXPECT_EQ(row.sweep.repeats.warmup, 2);
    EXPECT_EQ(row.sweep.repeats.repeats, 20);
    const Inputs inputs = row.sweep.inputs(row.at);
    EXPECT_EQ(inputs.query.shape, row.shape);
    EXPECT_EQ(checksum_of(inputs.query), row.query_crc);
    EXPECT_EQ(checksum_of(inputs.value), row.value_crc);
  }
}

TEST(LabPrefix, HoldsTheFirstPositionsOfEveryBatchEntry) {
  const Inputs inputs = normal_inputs(5, app::Element::f32, {3, 7, 2, 4});
  const Inputs cut = prefix(inputs, 5, 5);
  EXPECT_THAT(cut.key.shape, ElementsAre(3, 5, 2, 4));
  for (std::size_t b = 0; b < 3; ++b) {
    for (std::size_t i = 0; i < 5 * 8; ++i) {
      EXPECT_EQ(cut.key.as<float>()[b * 40 + i], inputs.key.as<float>()[b * 56 + i]);
    }
  }
}

TEST(LabCloseness, SeesEveryKindOfDifference) {
  app::Array a = normal_array(random_key(1), app::Element::f32, {10}), b = normal_array(random_key(1), app::Element::f32, {10});
  EXPECT_TRUE(closeness(a, b, 0, 0).close);
  b.as<float>()[3] = 2;
  a.as<float>()[3] = 2.5;
  EXPECT_FALSE(closeness(a, b, 0.4, 0).close);
  EXPECT_TRUE(closeness(a, b, 0.4, 0.1).close);
  EXPECT_EQ(closeness(a, b, 0.4, 0).largest, 0.5);
  a.as<float>()[7] = NAN;
  EXPECT_FALSE(closeness(a, b, 10, 10).close);
  EXPECT_TRUE(std::isnan(closeness(a, b, 10, 10).largest));
}

// Naive may be refused for its memory; nothing can then be compared with it.
TEST(LabCharts, KeepNoComparisonWithWhatDidNotRun) {
  report::Chart chart;
  chart.key = "chart";
  chart.baseline = naive_f32.key;
  chart.series = {series_of(naive_f32), series_of(fused_f32)};
  chart.series[1].points = {{64, 1, std::nullopt, std::nullopt}};
  report::Chart measured = chart;
  measured.series[0].points = {{64, 2, std::nullopt, std::nullopt}};
  drop_empty_series(measured);
  EXPECT_EQ(measured.series.size(), 2u);
  EXPECT_EQ(measured.baseline, naive_f32.key);
  drop_empty_series(chart);
  ASSERT_EQ(chart.series.size(), 1u);
  EXPECT_EQ(chart.series[0].key, fused_f32.key);
  report::Document document = headed();
  document.steps.emplace_back().blocks.emplace_back(chart);
  EXPECT_EQ(report::broken_rule(document), "");
}

TEST(LabGrowth, IsThatOfWhatIsAdded) {
  const std::vector<std::int64_t> lengths = {128, 256, 512, 1024};
  const auto costs = [&](double constant, double power) {
    std::vector<double> all;
    for (const std::int64_t t : lengths) all.push_back(constant + std::pow(static_cast<double>(t), power));
    return all;
  };
  for (const double power : {1.0, 1.5, 2.0}) {
    EXPECT_NEAR(growth_exponent(lengths, costs(0, power)), power, 1e-9);
    EXPECT_NEAR(growth_exponent(lengths, costs(1e7, power)), power, 1e-6);  // sixteen threads' own scratch, say
    EXPECT_NEAR(total_exponent(lengths, costs(0, power)), power, 1e-9);
  }
  EXPECT_EQ(total_exponent(lengths, std::vector<double>{0, 0, 0, 0}), 0);
}

TEST(LabChecks, SayWhatHeldAndWhatDidNot) {
  report::Step step;
  add_check(step, "a", {"", ""}, count(1), "=", count(1), true);
  add_check(step, "b", {"", ""}, count(1), "=", count(2), false);
  add_check(step, "c", {"", ""}, count(1), "=", count(2), false, Gate::informs);
  EXPECT_EQ(step.checks[0].verdict, report::Verdict::passed);
  EXPECT_EQ(step.checks[1].verdict, report::Verdict::failed);
  EXPECT_EQ(step.checks[2].verdict, report::Verdict::informative);
}

TEST(LabNumbers, AreWrittenAsTheCodelabWritesThem) {
  EXPECT_EQ(milliseconds(12.345).text, "12.35");
  EXPECT_EQ(milliseconds(0.1).text, "0.10");
  EXPECT_EQ(milliseconds(0.0523).text, "0.0523");
  EXPECT_EQ(difference(1.2345e-7).text, "1.23e-07");
  EXPECT_EQ(fixed(3.59807).text, "3.5981");
  EXPECT_EQ(bytes(2 << 20).text, "2.0 MiB");
  EXPECT_EQ(bytes(100).text, "100 B");
  EXPECT_EQ(times(2.5).text, "2.50×");
}

TEST(LabRanking, IsDeniedWhereSpreadsOverlap) {
  const auto timing = [](const char* label, double p10, double median, double p90) {
    report::Timing t;
    t.label = label;
    t.setting = "T=8";
    t.p10_ms = p10;
    t.median_ms = median;
    t.p90_ms = p90;
    return t;
  };
  report::Step step;
  note_unranked(step, {timing("slow", 9, 10, 11), timing("fast", 1, 2, 3), timing("middle", 2.5, 4, 5)});
  ASSERT_EQ(step.notes.size(), 1u);
  EXPECT_THAT(step.notes[0].en, HasSubstr("T=8: fast and middle are not ranked"));
  note_unranked(step, {timing("c", 3, 6, 9), timing("a", 1, 2, 3), timing("b", 2, 4, 6)});
  ASSERT_EQ(step.notes.size(), 2u);
  EXPECT_THAT(step.notes[1].en, HasSubstr("a and b, b and c are not ranked"));
  note_unranked(step, {timing("a", 1, 2, 3), timing("b", 4, 5, 6)});
  EXPECT_EQ(step.notes.size(), 2u);
}

TEST(LabRefusals, AreOneNoteForAReason) {
  report::Step step;
  add_refusal(step, "a", "T=64", "no room");
  add_refusal(step, "a f32", "T=64", "no room");
  add_refusal(step, "a", "T=128", "no room");
  add_refusal(step, "a", "T=256", "no kernel");
  add_refusal(step, "b", "", "absent");
  add_refusal(step, "b", "", "absent");
  std::vector<std::string> english;
  for (const report::Text& note : step.notes) english.push_back(note.en);
  EXPECT_THAT(english, ElementsAre("a (T=64; T=128) did not run: no room", "a f32 (T=64) did not run: no room",
                                   "a (T=256) did not run: no kernel", "b did not run: absent"));
  EXPECT_EQ(step.notes[0].hi, "a (T=64; T=128) नहीं चला: no room");
}

// The codelab's heat maps are of the encoder whose tensors the tests hold.
TEST(LabEncoderHead, IsTheStoredOne) {
  for (const auto& [name, values] : {std::pair{"query", &encoder_query}, {"key", &encoder_key}}) {
    const app::Array stored = app::load_array(std::string(DHYAN_TEST_DATA "/minilm.safetensors:").append(name), "stored");
    const std::span<const float> all = stored.as<float>();
    constexpr std::size_t entry = 2, length = 64, encoder_heads = 12;
    for (std::size_t t = 0; t < encoder_tokens; ++t) {
      const std::size_t at = (entry * length + t) * encoder_heads * encoder_width;
      for (std::size_t i = 0; i < encoder_width; ++i) {
        ASSERT_EQ((*values)[t * encoder_width + i], all[at + i]) << name << " token " << t;
      }
    }
  }
}

TEST(LabEncoderHead, ShowsWeightsThatSumToOneAndHidesWhatIsMasked) {
  for (const Causal causal : {Causal::off, Causal::top_left}) {
    const report::Chart chart = encoder_heat_map(causal, cpu);
    ASSERT_EQ(chart.heat.values.size(), encoder_tokens * encoder_tokens);
    for (std::size_t t = 0; t < encoder_tokens; ++t) {
      double sum = 0;
      for (std::size_t s = 0; s < encoder_tokens; ++s) {
        const std::optional<double> weight = chart.heat.values[t * encoder_tokens + s];
        EXPECT_EQ(weight.has_value(), causal == Causal::off || s <= t);
        sum += weight.value_or(0);
      }
      EXPECT_NEAR(sum, 1, 1e-5);
    }
  }
}

}  // namespace
}  // namespace dhyan::lab

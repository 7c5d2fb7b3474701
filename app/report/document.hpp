// SPDX-License-Identifier: Apache-2.0
// What a run of the lab leaves, as plain data. Steps fill it in; terminal, HTML, JSON and CSV read it; neither knows the other.
// results.json is this, member by member; broken_rule() holds it to what the comments here say.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace dhyan::report {

// Words in English and Hindi. Without Hindi (names, formulas) English serves both.
struct Text {
  std::string en = {};
  std::string hi = {};

  bool operator==(const Text&) const = default;
};

// What a cell shows, and the number behind it where there is one. An empty text is an empty cell; an empty `hi` means that the
// text (a name, a number) serves both languages.
struct Cell {
  std::string text = {};
  std::optional<double> value = {};
  std::string hi = {};

  bool operator==(const Cell&) const = default;
};

struct Column {
  std::string key = {};  // in JSON and CSV
  Text title = {};
  bool numeric = false;  // set flush right

  bool operator==(const Column&) const = default;
};

struct Table {
  std::string key = {};  // unique among tables; names tables/KEY.csv: letters, digits, _ and -
  Text title = {};
  std::vector<Column> columns = {};
  std::vector<std::vector<Cell>> rows = {};  // as many cells as columns

  bool operator==(const Table&) const = default;
};

enum class Marker { circle, square, diamond, triangle };

// One measured or counted value; low and high are p10 and p90 where it was timed.
struct Point {
  double x = 0;
  double y = 0;
  std::optional<double> low = {};
  std::optional<double> high = {};

  bool operator==(const Point&) const = default;
};

struct Series {
  std::string key = {};  // "fused_f32"
  std::string label = {};
  std::string colour = {};  // "#0969da", always six digits
  Marker marker = Marker::circle;
  std::vector<Point> points = {};  // by rising x; bars: one point, x unused

  bool operator==(const Series&) const = default;
};

// A matrix from 0 (nothing) to its largest value. Hidden values (masked) are none.
struct Heat {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<std::optional<double>> values = {};  // row by row

  bool operator==(const Heat&) const = default;
};

enum class ChartKind { bars, lines, heat };
enum class Better { none, lower, higher };

struct Chart {
  std::string key = {};  // unique among charts
  ChartKind kind = ChartKind::lines;
  Text title = {};
  Text caption = {};      // may be empty
  Text alternative = {};  // the chart in a sentence, for those who cannot see it
  Text x_title = {};
  Text y_title = {};
  std::string unit = {};  // of y: "ms", "bytes"; empty: none
  Better better = Better::none;
  bool logarithmic = false;         // how the axes begin; the reader may switch
  std::string baseline = {};        // key of the series that speed-up is measured against; empty: none
  std::vector<Series> series = {};  // bars: one series a bar
  Heat heat = {};

  bool operator==(const Chart&) const = default;
};

struct Code {  // shown as it is
  std::string text = {};

  bool operator==(const Code&) const = default;
};

struct Paragraph {
  Text text = {};

  bool operator==(const Paragraph&) const = default;
};

// What a step shows, in order.
using Block = std::variant<Paragraph, Code, Table, Chart>;

enum class Verdict { passed, failed, informative, not_run };

struct Check {
  std::string key = {};  // unique among checks
  Text name = {};
  Cell value = {};
  std::string relation = {};  // "≤", "<", "≥", ">", "=": what value has to be to limit
  Cell limit = {};
  Verdict verdict = Verdict::not_run;  // informative: shown, whatever it says; it fails nothing

  bool operator==(const Check&) const = default;
};

// All timed calls of one row.
struct Timing {
  std::string series = {};  // Series::key
  std::string label = {};
  std::string setting = {};  // "T=128"
  double median_ms = 0;
  double p10_ms = 0;
  double p90_ms = 0;
  std::optional<double> device_us = {};  // none on a CPU
  std::vector<double> samples_ms = {};

  bool operator==(const Timing&) const = default;
};

enum class Outcome {
  done,
  not_available,  // this machine cannot; `reason` says why
  skipped,        // not part of this run; `reason` says why
  interrupted     // what it had until then is there
};

struct Step {
  int number = 0;
  Text title = {};
  Text explanation = {};  // two or three sentences: what it shows, and why that is so
  Outcome outcome = Outcome::done;
  Text reason = {};
  std::vector<Block> blocks = {};
  std::vector<Text> notes = {};  // what has to be said of the numbers
  std::vector<Check> checks = {};
  std::vector<Timing> timings = {};
  double seconds = 0;

  bool operator==(const Step&) const = default;
};

inline constexpr int schema_version = 1;

struct Document {  // NOLINT(bugprone-exception-escape): nlohmann's move is noexcept, whatever the tool thinks
  int schema = schema_version;
  std::string created = {};                                        // UTC, "2026-11-30T20:15:00Z"
  std::string version = {};                                        // of dhyan
  std::string device = {};                                         // "cpu", "cuda:0"
  std::string device_name = {};                                    // as the machine says it: may hold anything
  nlohmann::ordered_json machine = {};                             // dhyan_info()
  std::vector<std::pair<std::string, std::string>> settings = {};  // "repeats": "20", as the lab was called
  std::vector<Step> steps = {};
  bool complete = false;  // false: it was interrupted, or is still running
  double seconds = 0;

  bool operator==(const Document&) const = default;
};

// "0.42", "0.0123": two digits after the point, two more under 0.1.
std::string milliseconds(double ms);

// "Lower is better."; empty where neither is.
Text in_words(Better better);

// How many checks of all steps ended which way.
struct Tally {
  int passed = 0, failed = 0, informative = 0, not_run = 0;
};
Tally tally_of(const Document& document);
// Where the document breaks a rule of this header, and which: "steps[3].blocks[0].rows[2] has 3 cells, …". Empty: nowhere.
std::string broken_rule(const Document& document);
// One line: did everything hold, was it whole, which steps this machine could not run.
Text verdict_of(const Document& document);

}  // namespace dhyan::report

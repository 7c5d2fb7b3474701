// SPDX-License-Identifier: Apache-2.0
#include "report/document.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "failure.hpp"

namespace dhyan::report {
namespace {

using app::shown;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// A key that is safe as a file name, a member of JSON and an identifier of a page.
bool is_key(std::string_view text) {
  return !text.empty() && text.size() <= 64 &&
         std::all_of(text.begin(), text.end(), [](char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '-'; });
}

bool is_colour(std::string_view text) {
  return text.size() == 7 && text[0] == '#' && std::all_of(text.begin() + 1, text.end(), [](char c) {
           return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
         });
}

// Digits where the pattern has 0, the same characters elsewhere.
bool is_like(std::string_view text, std::string_view pattern) {
  return std::equal(text.begin(), text.end(), pattern.begin(), pattern.end(),
                    [](char c, char p) { return p == '0' ? is_digit(c) : c == p; });
}

struct Broken {
  std::string sentence;
};

template <class... Args>
void require(bool holds, fmt::format_string<Args...> format, Args&&... args) {
  if (!holds) throw Broken{fmt::format(format, std::forward<Args>(args)...)};
}

// Keys that must not come twice.
class Keys {
 public:
  explicit Keys(std::string of) : of_(std::move(of)) {}
  void add(const std::string& key, const std::string& path) {
    require(is_key(key), "{}.key is {}; a key has 1 to 64 letters, digits, _ and -", path, shown(key));
    require(seen_.insert(key).second, "{}.key is {}, which another {} has already", path, shown(key), of_);
  }
  bool has(const std::string& key) const { return seen_.contains(key); }

 private:
  std::string of_;
  std::set<std::string> seen_;
};

void require_table(const Table& table, const std::string& path) {
  require(!table.columns.empty(), "{}.columns is empty", path);
  Keys keys("column of the table");
  for (std::size_t i = 0; i < table.columns.size(); ++i) keys.add(table.columns[i].key, fmt::format("{}.columns[{}]", path, i));
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    require(table.rows[i].size() == table.columns.size(), "{}.rows[{}] has {} cells where there are {} columns", path, i,
            table.rows[i].size(), table.columns.size());
  }
}

void require_points(const Chart& chart, const Series& series, const std::string& path) {
  if (chart.kind == ChartKind::bars) {
    require(series.points.size() == 1, "{}.points has {} points; a bar has one", path, series.points.size());
  }
  for (std::size_t i = 0; i < series.points.size(); ++i) {
    require(std::isfinite(series.points[i].x), "{}.points[{}].x is no number", path, i);
    require(i == 0 || series.points[i - 1].x < series.points[i].x, "{}.points[{}].x is not above the one before", path, i);
  }
}

void require_heat(const Heat& heat, const std::string& path) {
  const auto count = static_cast<std::int64_t>(heat.values.size());
  require(heat.rows > 0 && heat.columns > 0, "{} has {} rows and {} columns; it needs one of each", path, heat.rows,
          heat.columns);
  require(count % heat.columns == 0 && count / heat.columns == heat.rows, "{}.values has {} values; {} x {} are needed", path,
          count, heat.rows, heat.columns);
  for (std::size_t i = 0; i < heat.values.size(); ++i) {
    require(!heat.values[i] || *heat.values[i] >= 0, "{}.values[{}] is {}; values are 0 or more", path, i,
            heat.values[i].value_or(0));
  }
}

void require_chart(const Chart& chart, const std::string& path) {
  const bool heat = chart.kind == ChartKind::heat;
  require(!heat || chart.series.empty(), "{}.series has something in it; a heat map has no series", path);
  require(heat || chart.heat == Heat{}, "{}.heat has something in it; only a heat map has one", path);
  if (heat) require_heat(chart.heat, path + ".heat");
  Keys keys("series of the chart");
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    const std::string at = fmt::format("{}.series[{}]", path, i);
    const Series& series = chart.series[i];
    keys.add(series.key, at);
    require(is_colour(series.colour), "{}.colour is {}; a colour is # and six hexadecimal digits", at, shown(series.colour));
    require_points(chart, series, at);
  }
  require(chart.baseline.empty() || keys.has(chart.baseline), "{}.baseline is {}, which is the key of no series", path,
          shown(chart.baseline));
}

void require_document(const Document& document) {
  require(is_like(document.created, "0000-00-00T00:00:00Z"), "created is {}; it is written like 2026-11-30T20:15:00Z",
          shown(document.created));
  require(document.machine.is_object(), "machine is no object");
  std::set<std::string> settings;
  for (const auto& [name, value] : document.settings) {
    require(settings.insert(name).second, "settings has {} twice", shown(name));
  }
  Keys tables("table"), charts("chart"), checks("check");
  for (std::size_t s = 0; s < document.steps.size(); ++s) {
    const Step& step = document.steps[s];
    const std::string path = fmt::format("steps[{}]", s);
    require(s == 0 || document.steps[s - 1].number <= step.number, "{}.number is {}, which is less than the one before", path,
            step.number);
    for (std::size_t b = 0; b < step.blocks.size(); ++b) {
      const std::string at = fmt::format("{}.blocks[{}]", path, b);
      if (const auto* table = std::get_if<Table>(&step.blocks[b])) {
        tables.add(table->key, at);
        require_table(*table, at);
      } else if (const auto* chart = std::get_if<Chart>(&step.blocks[b])) {
        charts.add(chart->key, at);
        require_chart(*chart, at);
      }
    }
    for (std::size_t c = 0; c < step.checks.size(); ++c) {
      const std::string at = fmt::format("{}.checks[{}]", path, c);
      const std::string& relation = step.checks[c].relation;
      checks.add(step.checks[c].key, at);
      constexpr std::string_view relations[] = {"≤", "<", "≥", ">", "="};
      require(std::find(std::begin(relations), std::end(relations), relation) != std::end(relations),
              "{}.relation is {}; it is one of ≤ < ≥ > =", at, shown(relation));
    }
  }
}

// The numbers of the steps that hold something, in order and once each.
template <class Holds>
std::vector<int> numbers_where(const Document& document, Holds holds) {
  std::vector<int> numbers;
  for (const Step& step : document.steps) {
    if (holds(step) && (numbers.empty() || numbers.back() != step.number)) numbers.push_back(step.number);
  }
  return numbers;
}

// "5", "5 and 10", "1, 5 and 10"
std::string listed(const std::vector<int>& numbers, std::string_view conjunction) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0) text += i + 1 < numbers.size() ? std::string(", ") : fmt::format(" {} ", conjunction);
    text += std::to_string(numbers[i]);
  }
  return text;
}

// Where the machine had other work, times say little; nothing where it had not.
Text noise_in_words(const Document& document) {
  constexpr double wide = 1.5;  // p90 over p10
  constexpr int share = 4;      // one row in so many
  int rows = 0, noisy = 0;
  for (const Step& step : document.steps) {
    for (const Timing& timing : step.timings) {
      ++rows;
      noisy += timing.p90_ms > wide * timing.p10_ms ? 1 : 0;
    }
  }
  if (noisy == 0 || noisy * share < rows) return {};
  return {fmt::format("The machine was busy: in {} of {} timed rows p90 is over {} times p10, so compare times with care.",
                      noisy, rows, wide),
          fmt::format("मशीन व्यस्त थी: समय की {} में से {} पंक्तियों में p90, p10 के {} गुने से अधिक है; समय की तुलना सावधानी से करें।", rows,
                      noisy, wide)};
}

Text checks_in_words(const Document& document, const Tally& tally) {
  const int decided = tally.passed + tally.failed;
  if (decided == 0) return {"No check was made.", "कोई जाँच नहीं हुई।"};
  if (tally.failed == 0 && decided == 1) return {"The one check passed.", "एक ही जाँच थी, और वह सफल रही।"};
  if (tally.failed == 0) {
    return {fmt::format("All {} checks passed.", decided), fmt::format("सभी {} जाँचें सफल रहीं।", decided)};
  }
  const std::vector<int> steps = numbers_where(document, [](const Step& step) {
    return std::any_of(step.checks.begin(), step.checks.end(), [](const Check& c) { return c.verdict == Verdict::failed; });
  });
  const std::string_view plural = steps.size() == 1 ? "" : "s";
  return {fmt::format("{} of {} checks failed, in step{} {}.", tally.failed, decided, plural, listed(steps, "and")),
          fmt::format("{} में से {} जाँचें असफल रहीं: चरण {}।", decided, tally.failed, listed(steps, "और"))};
}

void append(Text& text, const Text& sentence) {
  text.en += (text.en.empty() ? "" : " ") + sentence.en;
  text.hi += (text.hi.empty() ? "" : " ") + sentence.hi;
}

}  // namespace

std::string broken_rule(const Document& document) {
  try {
    require_document(document);
  } catch (const Broken& broken) {
    return broken.sentence;
  }
  return "";
}

std::string milliseconds(double ms) { return fmt::format("{:.{}f}", ms, ms < 0.1 ? 4 : 2); }

Text in_words(Better better) {
  if (better == Better::none) return {};
  return better == Better::lower ? Text{"Lower is better.", "कम बेहतर है।"} : Text{"Higher is better.", "ज़्यादा बेहतर है।"};
}

Tally tally_of(const Document& document) {
  Tally tally;
  for (const Step& step : document.steps) {
    for (const Check& check : step.checks) {
      switch (check.verdict) {
        case Verdict::passed:
          ++tally.passed;
          break;
        case Verdict::failed:
          ++tally.failed;
          break;
        case Verdict::informative:
          ++tally.informative;
          break;
        case Verdict::not_run:
          ++tally.not_run;
          break;
      }
    }
  }
  return tally;
}

Text verdict_of(const Document& document) {
  const Tally tally = tally_of(document);
  Text verdict;
  if (!document.complete) append(verdict, {"The run did not get to its end.", "यह रन अंत तक नहीं पहुँचा।"});
  append(verdict, checks_in_words(document, tally));
  if (tally.not_run == 1) append(verdict, {"One more could not be made.", "एक और जाँच नहीं हो सकी।"});
  if (tally.not_run > 1) {
    append(verdict,
           {fmt::format("{} more could not be made.", tally.not_run), fmt::format("{} और जाँचें नहीं हो सकीं।", tally.not_run)});
  }
  if (tally.informative == 1) append(verdict, {"One more only informs.", "एक और जाँच केवल जानकारी के लिए है।"});
  if (tally.informative > 1) {
    append(verdict, {fmt::format("{} more only inform.", tally.informative),
                     fmt::format("{} और जाँचें केवल जानकारी के लिए हैं।", tally.informative)});
  }
  const std::vector<int> steps =
      numbers_where(document, [](const Step& step) { return step.outcome == Outcome::not_available; });
  if (steps.size() == 1) {
    append(verdict, {fmt::format("Step {} cannot run on this machine.", steps[0]),
                     fmt::format("चरण {} इस मशीन पर नहीं चल सकता।", steps[0])});
  } else if (!steps.empty()) {
    append(verdict, {fmt::format("Steps {} cannot run on this machine.", listed(steps, "and")),
                     fmt::format("चरण {} इस मशीन पर नहीं चल सकते।", listed(steps, "और"))});
  }
  if (const Text noise = noise_in_words(document); !noise.en.empty()) append(verdict, noise);
  return verdict;
}

}  // namespace dhyan::report

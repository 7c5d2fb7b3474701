// SPDX-License-Identifier: Apache-2.0
// What a terminal is shown: no line too wide, no number lost, nothing a terminal would obey, charts that show their data.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "report/console.hpp"
#include "report/plot.hpp"
#include "report/table.hpp"
#include "report/terminal.hpp"
#include "support/random.hpp"
#include "support/sample_document.hpp"

namespace dhyan::report {
namespace {

using app::display_width;
using ::dhyan::testing::hostile_texts;
using ::dhyan::testing::Random;
using ::dhyan::testing::random_document;
using ::dhyan::testing::sample_document;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::Not;
using ::testing::StartsWith;

// Without the colours there are when the tests run in a terminal.
std::string plain(const std::string& text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 2, "\033[") == 0) {
      const std::size_t end = text.find_first_not_of("0123456789", i + 2);
      if (end != std::string::npos && text[end] == 'm') {
        i = end;
        continue;
      }
    }
    result += text[i];
  }
  return result;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines(1);
  for (const char c : plain(text)) {
    if (c == '\n') {
      lines.emplace_back();
    } else {
      lines.back() += c;
    }
  }
  EXPECT_EQ(lines.back(), "");  // the text ends with a line
  lines.pop_back();
  return lines;
}

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

std::vector<Step> many_steps(const char* name) {
  std::vector<Step> steps = sample_document().steps;
  Random random(name);
  for (int i = 0; i < 60; ++i) {
    for (Step& step : random_document(random).steps) steps.push_back(std::move(step));
  }
  return steps;
}

TEST(Console, HasNoLineThatIsTooWide) {
  for (const Step& step : many_steps("Console.HasNoLineThatIsTooWide")) {
    for (const int width : {30, 40, 80, 131}) {
      for (const std::string& line : lines_of(console_text(step, width))) {
        ASSERT_LE(display_width(line), static_cast<std::size_t>(width)) << line << ::dhyan::testing::run_seed();
      }
    }
  }
}

TEST(Console, ShowsNothingThatATerminalObeys) {
  for (const Step& step : many_steps("Console.ShowsNothingThatATerminalObeys")) {
    const std::string text = plain(console_text(step, 80));
    for (const char c : text) {
      ASSERT_TRUE(c == '\n' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f)) << static_cast<int>(c);
    }
    for (const char* part : {"\xc2\x9b", "\xe2\x80\xae", "\xe2\x80\x8b", "\xef\xbb\xbf", "\xe2\x80\xa8"}) {
      ASSERT_THAT(text, Not(HasSubstr(part)));
    }
  }
}

TEST(Console, IsTheSameEveryTime) {
  for (const Step& step : sample_document().steps) EXPECT_EQ(console_text(step, 80), console_text(step, 80));
}

// A step with one table of so many numeric columns, and their texts.
Step numbers(std::size_t columns, std::vector<std::string>& texts) {
  Table table{.key = "t", .title = {"Numbers", ""}};
  table.rows.resize(4);
  for (std::size_t c = 0; c < columns; ++c) {
    table.columns.push_back({fmt::format("c{}", c), {fmt::format("column of milliseconds {}", c), ""}, true});
    for (std::size_t r = 0; r < table.rows.size(); ++r) {
      texts.push_back(fmt::format("{}.{:02}", 1000 + 7 * r, c));
      table.rows[r].push_back({texts.back(), {}});
    }
  }
  Step step{.number = 1};
  step.blocks.emplace_back(std::move(table));
  return step;
}

TEST(Console, LosesNoNumberHoweverNarrow) {
  for (const std::size_t columns : {1U, 2U, 5U, 9U, 20U}) {
    std::vector<std::string> texts;
    const Step step = numbers(columns, texts);
    for (const int width : {30, 40, 80}) {
      const std::string text = plain(console_text(step, width));
      for (const std::string& number : texts) EXPECT_THAT(text, HasSubstr(number)) << columns << " in " << width;
    }
  }
}

TEST(Console, ShowsAllOfAStep) {
  const Document document = sample_document();
  const std::string environment = plain(console_text(document.steps[0], 80));
  EXPECT_THAT(environment, StartsWith("Step 1: Environment\nWhat this machine is."));
  EXPECT_THAT(environment, HasSubstr("\n    // softmax(Q K^T / sqrt(H)) V\n"));
  EXPECT_THAT(environment, HasSubstr("\nThreads    2\n"));
  EXPECT_THAT(environment, HasSubstr("\n✓ The device asked for is there: 1 (expected ≥ 1)\n"));
  const std::string vendor = plain(console_text(document.steps[1], 80));
  EXPECT_THAT(vendor, HasSubstr("\nNot available on this device: cudnn needs a CUDA device; this build has none\n"));
  EXPECT_THAT(vendor, HasSubstr("\n· Vendor and fused are close: not run (expected ≤ 1.00e-02)\n"));
  EXPECT_THAT(plain(console_text(document.steps[2], 80)),
              HasSubstr("\n✗ Last row is the same: 3.00e-05 (expected < 1.00e-05)\n"));
  EXPECT_THAT(plain(console_text(document.steps[3], 80)), HasSubstr("\n! At T = 64 the two could not be ranked"));
  EXPECT_THAT(plain(console_text(document.steps[4], 80)), HasSubstr("\nSkipped: Own tensors were given"));
  EXPECT_THAT(plain(console_text(document.steps[5], 80)), HasSubstr("\nInterrupted: Ctrl-C\n"));
}

Chart bars_of(const std::vector<double>& values) {
  Chart chart{.key = "b", .kind = ChartKind::bars, .title = {"Title", ""}, .unit = "ms"};
  for (const double value : values) {
    chart.series.push_back({fmt::format("s{}", chart.series.size()), "bar", "#0969da", Marker::circle, {{0, value}}});
  }
  return chart;
}

TEST(Bars, AreAsLongAsTheirValues) {
  const std::vector<std::string> lines = lines_of(plot_bars(bars_of({1234.5, 617.25, 0.04, 0, 1}), 80));
  ASSERT_EQ(lines.size(), 6U);
  EXPECT_EQ(count(lines[1], "█"), 60U);
  EXPECT_EQ(count(lines[2], "█"), 30U);
  EXPECT_EQ(count(lines[3], "█"), 1U);  // 3 % of the longest, so that it is seen
  EXPECT_EQ(count(lines[4], "█"), 0U);
  EXPECT_THAT(lines[1], ::testing::EndsWith(" 1,234.5 ms"));
  EXPECT_THAT(lines[3], ::testing::EndsWith(" 0.04 ms"));
  EXPECT_THAT(lines[4], ::testing::EndsWith(" 0.0 ms"));
  EXPECT_THAT(lines[5], ::testing::EndsWith(" 1.0 ms"));
}

TEST(Bars, WriteLargeNumbersInGroups) {
  EXPECT_EQ(app::bar_value(999.94), "999.9");
  EXPECT_EQ(app::bar_value(1000), "1,000.0");
  EXPECT_EQ(app::bar_value(-1234567.89), "-1,234,567.9");
  EXPECT_EQ(app::bar_value(-123.4), "-123.4");
  EXPECT_EQ(app::bar_value(0.00012), "0.00012");
  EXPECT_EQ(app::bar_value(1e300), "1e+300");
}

TEST(Bars, StandWhatIsNoNumber) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  EXPECT_THAT(plain(plot_bars(bars_of({nan, infinity, -infinity, 2}), 40)),
              ::testing::AllOf(HasSubstr("nan ms"), HasSubstr("inf ms"), HasSubstr("█ 2.0 ms")));
}

struct Place {
  std::size_t row, column;
};

// Where a sign stands, in columns from the left edge of the plot, from top to bottom.
std::vector<Place> places(const std::vector<std::string>& lines, const std::string& sign) {
  std::vector<Place> places;
  for (std::size_t row = 0; row < lines.size(); ++row) {
    std::size_t edge = std::min(lines[row].find("│"), lines[row].find("┤"));
    if (edge == std::string::npos) continue;
    for (std::size_t at = lines[row].find(sign); at != std::string::npos; at = lines[row].find(sign, at + 1)) {
      places.push_back({row, display_width(lines[row].substr(edge, at - edge)) - 1});
    }
  }
  return places;
}

Chart lines_chart(bool logarithmic, const std::vector<Point>& first, const std::vector<Point>& second) {
  return {.key = "l",
          .kind = ChartKind::lines,
          .title = {"Title", ""},
          .x_title = {"Length", ""},
          .y_title = {"Median ms", ""},
          .unit = "ms",
          .logarithmic = logarithmic,
          .series = {{"a", "first", "#d1242f", Marker::circle, first}, {"b", "second", "#0969da", Marker::triangle, second}}};
}

TEST(LinePlot, ShowsEveryPointOfEverySeries) {
  const Chart chart = lines_chart(true, {{64, 1}, {128, 4}, {256, 16}, {512, 64}, {1024, 256}}, {{64, 0.1}, {1024, 0.2}});
  const std::vector<std::string> lines = lines_of(plot_lines(chart, 80));
  const std::vector<Place> first = places(lines, "○"), second = places(lines, "△");
  ASSERT_EQ(first.size(), 5U);
  ASSERT_EQ(second.size(), 2U);
  EXPECT_EQ(lines[0], "Title");
  EXPECT_EQ(lines[1], "Median ms");
  EXPECT_THAT(lines.back(), ::testing::AllOf(HasSubstr("○ first"), HasSubstr("△ second")));
  EXPECT_THAT(lines[lines.size() - 2], HasSubstr("Length"));
}

TEST(LinePlot, LogarithmicAxesSpaceEqualFactorsEqually) {
  const Chart chart = lines_chart(true, {{64, 1}, {128, 4}, {256, 16}, {512, 64}, {1024, 256}}, {});
  const std::vector<Place> points = places(lines_of(plot_lines(chart, 80)), "○");
  ASSERT_EQ(points.size(), 5U);
  for (std::size_t i = 1; i + 1 < points.size(); ++i) {  // rows are numbered downwards, so the last point comes first
    const auto step = [](std::size_t a, std::size_t b) { return static_cast<int>(a) - static_cast<int>(b); };
    EXPECT_NEAR(step(points[i - 1].column, points[i].column), step(points[i].column, points[i + 1].column), 1);
    EXPECT_NEAR(step(points[i].row, points[i - 1].row), step(points[i + 1].row, points[i].row), 1);
  }
}

TEST(LinePlot, StraightAxesBeginAtZeroAndSpaceEqualDifferencesEqually) {
  const std::vector<std::string> lines = lines_of(plot_lines(lines_chart(false, {{0, 13}, {100, 6.5}, {200, 0}}, {}), 80));
  const std::vector<Place> points = places(lines, "○");
  ASSERT_EQ(points.size(), 3U);
  EXPECT_EQ(points[0].column, 0U);
  EXPECT_NEAR(static_cast<double>(points[1].column), static_cast<double>(points[2].column) / 2, 0.5);
  EXPECT_EQ(points[2].row - points[0].row, 13U);
  EXPECT_NEAR(static_cast<double>(points[1].row - points[0].row), 6.5, 0.5);
  EXPECT_THAT(lines[points[2].row], HasSubstr("0 ms ┤"));
}

TEST(LinePlot, MarksTheMeasuredX) {
  const std::vector<std::string> lines =
      lines_of(plot_lines(lines_chart(true, {{64, 1}, {256, 2}, {1024, 3}}, {{64, 5}, {300, 6}}), 80));
  const auto edge = std::find_if(lines.begin(), lines.end(), [](const auto& line) { return count(line, "└") > 0; });
  ASSERT_NE(edge, lines.end());
  EXPECT_EQ(count(*edge, "┬"), 4U);
  for (const char* x : {"64", "256", "1024"}) EXPECT_THAT(*(edge + 1), HasSubstr(x));
}

TEST(LinePlot, SaysWherePointsCoincide) {
  const std::vector<std::string> lines = lines_of(plot_lines(lines_chart(false, {{1, 1}, {2, 2}}, {{1, 1}, {2, 1}}), 80));
  EXPECT_EQ(places(lines, "*").size(), 1U);
  EXPECT_EQ(places(lines, "○").size(), 1U);
  EXPECT_EQ(places(lines, "△").size(), 1U);
  EXPECT_THAT(lines.back(), HasSubstr("* several"));
}

TEST(LinePlot, StandsAnyNumbers) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), most = std::numeric_limits<double>::max();
  for (const bool logarithmic : {false, true}) {
    EXPECT_EQ(
        places(lines_of(plot_lines(lines_chart(logarithmic, {{-most, -most}, {0, nan}, {most, most}}, {}), 40)), "○").size(),
        2U);
    EXPECT_EQ(places(lines_of(plot_lines(lines_chart(logarithmic, {{7, 7}}, {}), 40)), "○").size(), 1U);
    EXPECT_EQ(places(lines_of(plot_lines(lines_chart(logarithmic, {{5e-324, 5e-324}, {most, most}}, {}), 40)), "○").size(), 2U);
    EXPECT_EQ(places(lines_of(plot_lines(lines_chart(logarithmic, {}, {}), 40)), "○").size(), 0U);
  }
}

Chart heat_of(Heat heat) { return {.key = "h", .kind = ChartKind::heat, .title = {"Title", ""}, .heat = std::move(heat)}; }

TEST(HeatPlot, ShadesEveryValue) {
  const Heat heat{2, 3, {0.0, 0.03, 0.04, 0.2, 2.0, std::nullopt}};
  const std::vector<std::string> lines = lines_of(plot_heat(heat_of(heat), 80));
  EXPECT_EQ(lines[1], "  ░░▒▒");
  EXPECT_EQ(lines[2], "▓▓██·");
  EXPECT_EQ(lines[3], "Largest 2. █ from 0.5, ▓ from 0.12, ▒ from 0.031, ░ above 0; · hidden.");
}

TEST(HeatPlot, HasALineForEachRowAndDropsNothingThatFits) {
  const Step step = sample_document().steps[2];
  for (const int width : {40, 80}) {
    const std::string text = plain(console_text(step, width));
    EXPECT_EQ(count(text, "·"), 37U * 36 / 2 + 1) << width;  // and one in the key
    EXPECT_THAT(text, Not(HasSubstr("Each place")));
  }
  EXPECT_THAT(plain(console_text(step, 30)), HasSubstr("Each place shows"));
}

TEST(HeatPlot, StandsAMatrixOfNothing) {
  EXPECT_EQ(lines_of(plot_heat(heat_of({1, 2, {0.0, std::nullopt}}), 80))[1], "  ·");
  EXPECT_EQ(lines_of(plot_heat(heat_of({1, 1, {std::nullopt}}), 80))[1], "·");
}

TEST(Table, WrapsLongCellsAndKeepsShortWordsWhole) {
  app::Table table({{"Name"}, {"Value", app::Align::right}});
  table.add({"one two three four five six seven eight", "12.50"});
  table.add({"short", "7"});
  const std::vector<std::string> lines = lines_of(table.text(24));
  EXPECT_THAT(lines, ElementsAre("Name               Value", "─────────────────  ─────", "one two three      12.50",
                                 "four five six", "seven eight", "short                  7"));
  EXPECT_EQ(table.text(46), table.text());
}

TEST(Table, BreaksTitlesAndLongCellsBeforeShortOnes) {
  app::Table table({{"Shape"}, {"Bytes per token", app::Align::right}, {"What it is"}});
  table.add({"(4, 128, 8, 64)", "4096", "keys and values of eight heads"});
  EXPECT_THAT(lines_of(table.text(40)),
              ElementsAre("Shape             Bytes per  What it is", "                      token",
                          "───────────────  ──────────  ───────────", "(4, 128, 8, 64)        4096  keys and",
                          "                             values of", "                             eight heads"));
}

TEST(Table, TurnsIntoAListWhereItsNumbersDoNotFit) {
  app::Table table({{"first", app::Align::right}, {"second", app::Align::right}, {"third", app::Align::right}});
  table.add({"1234567890", "2345678901", "3456789012"});
  table.add({"1", "2", "3"});
  EXPECT_THAT(lines_of(table.text(25)), ElementsAre("first: 1234567890", "second: 2345678901", "third: 3456789012", "",
                                                    "first: 1", "second: 2", "third: 3"));
}

TEST(Wrapped, KeepsWordsAndTheirOrder) {
  EXPECT_THAT(app::wrapped("aa bb  cc dd", 5), ElementsAre("aa bb", "cc dd"));
  EXPECT_THAT(app::wrapped("", 5), ElementsAre(""));
  EXPECT_THAT(app::wrapped("a bbbbbbbbb c", 4), ElementsAre("a bb", "bbbb", "bbb", "c"));
  EXPECT_THAT(app::wrapped("日本語の名前", 5), ElementsAre("日本", "語の", "名前"));
  EXPECT_THAT(app::wrapped("abe\xcc\x81\xcc\x82"
                           "cd",
                           3),
              ElementsAre("abe\xcc\x81\xcc\x82", "cd"));
}

TEST(Wrapped, LosesNothing) {
  Random random("Wrapped.LosesNothing");
  for (int i = 0; i < 300; ++i) {
    std::string text;
    for (int n = 0; n < 5; ++n) {
      text += app::printable(hostile_texts()[static_cast<std::size_t>(
                  random.integer(0, static_cast<std::int64_t>(hostile_texts().size()) - 1))]) +
              " ";
    }
    const auto width = static_cast<std::size_t>(random.integer(2, 90));
    std::string joined;
    std::vector<std::size_t> widths;
    for (const std::string& line : app::wrapped(text, width)) {
      joined += line;
      widths.push_back(display_width(line));
    }
    EXPECT_THAT(widths, Each(Le(width)));
    std::erase(text, ' ');
    std::erase(joined, ' ');
    EXPECT_EQ(joined, text) << ::dhyan::testing::run_seed();
  }
}

TEST(DisplayWidth, CountsColumns) {
  EXPECT_EQ(display_width("plain"), 5U);
  EXPECT_EQ(display_width("µs × ≤ █ ○□◇△ ⠿ ✓"), 17U);
  EXPECT_EQ(display_width("e\xcc\x81\xcc\x82"), 1U);
  EXPECT_EQ(display_width("日本語"), 6U);
  EXPECT_EQ(display_width("ｆ"), 2U);
  EXPECT_EQ(display_width("\xf0\x9f\x98\x80"), 2U);
  EXPECT_EQ(display_width("\033[31mred\033[0m"), 3U);
  EXPECT_EQ(display_width("\xff\xfe"), 2U);
  EXPECT_EQ(display_width(""), 0U);
}

TEST(Printable, ShowsWhatItCannotPrint) {
  EXPECT_EQ(app::printable("a\tb\r\nc"), "a b  c");
  EXPECT_EQ(app::printable("\033[31m"), "�[31m");
  EXPECT_EQ(app::printable("x\xc2\x9by\xe2\x80\xaez"), "x�y�z");
  EXPECT_EQ(app::printable("\xff\xc0\xaf\xed\xa0\x80\xf4\x90\x80\x80\xe2\x82"), "������������");
  EXPECT_EQ(app::printable("ध्यान 日本 é"), "ध्यान 日本 é");
}

}  // namespace
}  // namespace dhyan::report

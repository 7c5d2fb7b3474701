// SPDX-License-Identifier: Apache-2.0
#include "report/console.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "report/plot.hpp"
#include "report/table.hpp"
#include "report/terminal.hpp"

namespace dhyan::report {
namespace {

using app::Align;
using app::Colour;
using app::painted;
using app::printable;
using app::wrapped;

// Narrower, and nothing could be laid out.
constexpr int least_width = 30;

class Writer {
 public:
  Writer(const Step& step, int width) : step_(step), width_(std::max(width, least_width)) {}

  std::string text() {
    lines(fmt::format("Step {}: {}", step_.number, step_.title.en), Colour::bold);
    if (!step_.explanation.en.empty()) lines(step_.explanation.en);
    outcome();
    for (const Block& block : step_.blocks) {
      result_ += "\n";
      std::visit([&](const auto& content) { add(content); }, block);
    }
    if (!step_.notes.empty() || !step_.checks.empty()) result_ += "\n";
    for (const Text& note : step_.notes) hanging("! ", Colour::yellow, note.en);
    for (const Check& check : step_.checks) add(check);
    return result_;
  }

 private:
  void lines(const std::string& text, Colour colour = Colour::none, std::size_t indent = 0) {
    for (const std::string& line : wrapped(printable(text), static_cast<std::size_t>(width_) - indent)) {
      result_ += std::string(indent, ' ') + painted(colour, line) + "\n";
    }
  }

  // The first line begins with a painted sign; the others with as many blanks.
  void hanging(const std::string& sign, Colour colour, const std::string& text) {
    const std::size_t indent = app::display_width(sign);
    bool first = true;
    for (const std::string& line : wrapped(printable(text), static_cast<std::size_t>(width_) - indent)) {
      result_ += (first ? painted(colour, sign) : std::string(indent, ' ')) + line + "\n";
      first = false;
    }
  }

  void outcome() {
    constexpr const char* words[] = {"", "Not available on this device: ", "Skipped: ", "Interrupted: "};
    if (step_.outcome == Outcome::done) return;
    lines(words[static_cast<int>(step_.outcome)] + step_.reason.en, Colour::yellow);
  }

  void add(const Paragraph& paragraph) { lines(paragraph.text.en); }

  void add(const Code& code) {
    constexpr std::size_t indent = 4;
    std::size_t start = 0;
    while (start <= code.text.size()) {
      const std::size_t end = std::min(code.text.find('\n', start), code.text.size());
      const std::string line = code.text.substr(start, end - start);
      const std::size_t blanks = std::min<std::size_t>(std::min(line.find_first_not_of(' '), line.size()), 8);
      if (line.size() > blanks) lines(line.substr(blanks), Colour::none, indent + blanks);
      if (line.size() == blanks && end < code.text.size()) result_ += "\n";
      start = end + 1;
    }
  }

  void add(const Table& table) {
    if (!table.title.en.empty() && table.title.en != step_.title.en) lines(table.title.en);
    std::vector<app::Table::Column> columns;
    for (const Column& column : table.columns) {
      columns.push_back({printable(column.title.en), column.numeric ? Align::right : Align::left});
    }
    app::Table drawn(std::move(columns));
    for (const std::vector<Cell>& row : table.rows) {
      std::vector<std::string> cells;
      for (const Cell& cell : row) cells.push_back(printable(cell.text));
      drawn.add(std::move(cells));
    }
    result_ += drawn.text(static_cast<std::size_t>(width_));
  }

  void add(const Chart& chart) {
    constexpr std::string (*drawing[])(const Chart&, int) = {plot_bars, plot_lines, plot_heat};
    result_ += drawing[static_cast<int>(chart.kind)](chart, width_);
  }

  void add(const Check& check) {
    const bool passed = check.verdict == Verdict::passed, failed = check.verdict == Verdict::failed;
    const std::string value = check.verdict == Verdict::not_run ? "not run" : check.value.text;
    hanging(passed   ? "✓ "
            : failed ? "✗ "
                     : "· ",
            passed   ? Colour::green
            : failed ? Colour::red
                     : Colour::dim,
            fmt::format("{}: {} (expected {} {})", check.name.en, value, check.relation, check.limit.text));
  }

  const Step& step_;
  int width_;
  std::string result_;
};

}  // namespace

std::string console_text(const Step& step, int width) { return Writer(step, width).text(); }

}  // namespace dhyan::report

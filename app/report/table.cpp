// SPDX-License-Identifier: Apache-2.0
#include "report/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dhyan::app {
namespace {

constexpr std::size_t gap = 2;  // between columns
// Words and numbers up to this long are never broken in a table.
constexpr std::size_t unbroken = 20;

std::string padded(const std::string& cell, std::size_t width, Align align) {
  const std::string spaces(width - std::min(width, display_width(cell)), ' ');
  return align == Align::left ? cell + spaces : spaces + cell;
}

std::size_t longest_word(std::string_view text) {
  std::size_t longest = 0;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t end = std::min(text.find(' ', i), text.size());
    longest = std::max(longest, display_width(text.substr(i, end - i)));
    i = end + 1;
  }
  return longest;
}

std::size_t total(const std::vector<std::size_t>& widths) {
  return std::accumulate(widths.begin(), widths.end(), widths.empty() ? std::size_t{0} : gap * (widths.size() - 1));
}

}  // namespace

std::vector<std::size_t> Table::natural_widths() const {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::size_t width = display_width(columns_[c].title);
    for (const auto& row : rows_) width = std::max(width, display_width(row[c]));
    widths.push_back(width);
  }
  return widths;
}

// The widest column gives way first; none goes below its longest word nor, where that can be had, below its short cells. None:
// not even that is enough.
std::optional<std::vector<std::size_t>> Table::widths_within(std::size_t width) const {
  const std::vector<std::size_t> natural = natural_widths();
  for (const bool whole_cells : {true, false}) {
    std::vector<std::size_t> least;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      std::size_t needed = std::max<std::size_t>(std::min(longest_word(columns_[c].title), unbroken), 2);
      for (const auto& row : rows_) {
        const std::size_t cell = display_width(row[c]);
        const bool whole = cell <= unbroken && (whole_cells || columns_[c].align == Align::right);
        needed = std::max(needed, whole ? cell : std::min(longest_word(row[c]), unbroken));
      }
      least.push_back(std::min(needed, natural[c]));
    }
    if (total(least) > width) continue;
    std::vector<std::size_t> widths = natural;
    while (total(widths) > width) {
      std::size_t widest = widths.size();
      for (std::size_t c = 0; c < widths.size(); ++c) {
        if (widths[c] > least[c] && (widest == widths.size() || widths[c] > widths[widest])) widest = c;
      }
      --widths[widest];
    }
    return widths;
  }
  return std::nullopt;
}

std::string Table::grid(const std::vector<std::size_t>& widths) const {
  std::string result;
  const auto row = [&](auto&& cell, Colour colour) {
    std::vector<Lines> cells;
    std::size_t height = 1;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const std::string& content = cell(c);
      cells.push_back(display_width(content) <= widths[c] ? Lines{content} : wrapped(content, widths[c]));
      height = std::max(height, cells.back().size());
    }
    for (std::size_t line = 0; line < height; ++line) {
      std::string text;
      for (std::size_t c = 0; c < columns_.size(); ++c) {
        const std::string content = line < cells[c].size() ? cells[c][line] : "";
        text += std::string(c > 0 ? gap : 0, ' ') + painted(colour, padded(content, widths[c], columns_[c].align));
      }
      text.erase(text.find_last_not_of(' ') + 1);
      result += text + "\n";
    }
  };
  row([&](std::size_t c) -> const std::string& { return columns_[c].title; }, Colour::bold);
  Lines rules(columns_.size());
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    for (std::size_t i = 0; i < widths[c]; ++i) rules[c] += "─";
  }
  row([&](std::size_t c) -> const std::string& { return rules[c]; }, Colour::dim);
  for (const auto& cells : rows_) {
    row([&](std::size_t c) -> const std::string& { return cells[c]; }, Colour::none);
  }
  return result;
}

std::string Table::list(std::size_t width) const {
  std::string result;
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    if (r > 0) result += "\n";
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const std::string title = columns_[c].title + ":";
      const Lines lines = wrapped(title + " " + rows_[r][c], width);
      for (std::size_t i = 0; i < lines.size(); ++i) {
        const bool titled = i == 0 && lines[i].starts_with(title);
        result += titled ? painted(Colour::bold, title) + lines[i].substr(title.size()) : lines[i];
        result += "\n";
      }
    }
  }
  return result;
}

std::string Table::text() const { return grid(natural_widths()); }

std::string Table::text(std::size_t width) const {
  const auto widths = widths_within(width);
  return widths ? grid(*widths) : list(width);
}

std::string bar(double value, double largest, int width) {
  constexpr const char* eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  if (!(largest > 0) || !(value > 0)) return "";
  const int parts = std::clamp(static_cast<int>(std::lround(value / largest * width * 8)), 1, width * 8);
  std::string result;
  for (int i = 0; i < parts / 8; ++i) result += "█";
  return result + eighths[parts % 8];
}

std::string bar_value(double value) {
  if (!std::isfinite(value) || std::abs(value) >= 1e15) return fmt::format("{:.3g}", value);
  if (std::abs(value) < 0.95 && value != 0) return fmt::format("{:.2g}", value);
  std::string text = fmt::format("{:.1f}", value);
  for (std::size_t at = text.size() - 2; at > (text[0] == '-' ? 4U : 3U);) text.insert(at -= 3, 1, ',');
  return text;
}

std::string bar_chart(std::string_view title, std::string_view unit, const std::vector<Bar>& bars, int width, Colour colour) {
  std::size_t label_width = 0, value_width = 0;
  double largest = 0;
  std::vector<std::string> values;
  for (const Bar& b : bars) {
    values.push_back(bar_value(b.value) + (unit.empty() ? "" : " ") + std::string(unit));
    value_width = std::max(value_width, display_width(values.back()));
    label_width = std::max(label_width, display_width(b.label));
    if (std::isfinite(b.value)) largest = std::max(largest, b.value);
  }
  const auto room = static_cast<std::size_t>(width);
  label_width = std::min(label_width, room / 3);
  const bool below = label_width + value_width + 9 > room;  // a value too long for the line stands under its bar
  const int bar_width = std::clamp(static_cast<int>(room - label_width - 3 - (below ? 0 : value_width)), 4, 60);
  std::string result;
  for (const std::string& line : wrapped(title, room)) result += painted(Colour::bold, line) + "\n";
  for (std::size_t i = 0; i < bars.size(); ++i) {
    const std::vector<std::string> label = wrapped(bars[i].label, std::max<std::size_t>(label_width, 2));
    const double value = bars[i].value;
    const double length = std::isfinite(value) && value > 0 ? std::max(value, 0.03 * largest) : 0;  // seen, however short
    result += padded(label[0], label_width, Align::left) + "  " + painted(colour, bar(length, largest, bar_width));
    if (!below) result += " " + values[i];
    result += "\n";
    for (std::size_t l = 1; l < label.size(); ++l) result += label[l] + "\n";
    if (below) {
      for (const std::string& line : wrapped(values[i], room)) result += line + "\n";
    }
  }
  return result;
}

}  // namespace dhyan::app

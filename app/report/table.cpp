// SPDX-License-Identifier: Apache-2.0
#include "report/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/terminal.hpp"

namespace dhyan::app {
namespace {

std::string padded(const std::string& cell, std::size_t width, Align align) {
  const std::string spaces(width - std::min(width, display_width(cell)), ' ');
  return align == Align::left ? cell + spaces : spaces + cell;
}

}  // namespace

std::string Table::text() const {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::size_t width = display_width(columns_[c].title);
    for (const auto& row : rows_) width = std::max(width, display_width(row[c]));
    widths.push_back(width);
  }
  std::string result;
  const auto line = [&](auto&& cell) {
    std::string text;
    for (std::size_t c = 0; c < columns_.size(); ++c) text += (c ? "  " : "") + cell(c);
    text.erase(text.find_last_not_of(' ') + 1);
    result += text + "\n";
  };
  line([&](std::size_t c) { return painted(Colour::bold, padded(columns_[c].title, widths[c], columns_[c].align)); });
  line([&](std::size_t c) {
    std::string rule;
    for (std::size_t i = 0; i < widths[c]; ++i) rule += "─";
    return painted(Colour::dim, rule);
  });
  for (const auto& row : rows_) {
    line([&](std::size_t c) { return padded(row[c], widths[c], columns_[c].align); });
  }
  return result;
}

std::string bar(double value, double largest, int width) {
  constexpr const char* eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  if (!(largest > 0) || !(value > 0)) return "";
  const int parts = std::clamp(static_cast<int>(std::lround(value / largest * width * 8)), 1, width * 8);
  std::string result;
  for (int i = 0; i < parts / 8; ++i) result += "█";
  return result + eighths[parts % 8];
}

std::string bar_chart(std::string_view title, std::string_view unit, const std::vector<Bar>& bars) {
  std::size_t label_width = 0;
  double largest = 0;
  for (const Bar& b : bars) {
    label_width = std::max(label_width, display_width(b.label));
    largest = std::max(largest, b.value);
  }
  constexpr int value_width = 16;
  const int width = std::clamp(terminal_width() - static_cast<int>(label_width) - value_width, 10, 60);
  std::string result = painted(Colour::bold, title) + "\n";
  for (const Bar& b : bars) {
    result += fmt::format("{}  {} {:.1f} {}\n", padded(b.label, label_width, Align::left),
                          painted(Colour::blue, bar(b.value, largest, width)), b.value, unit);
  }
  return result;
}

}  // namespace dhyan::app

// SPDX-License-Identifier: Apache-2.0
// Tables and bars for a terminal.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/terminal.hpp"

namespace dhyan::app {

enum class Align { left, right };

class Table {
 public:
  struct Column {
    std::string title;
    Align align = Align::left;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // As many cells as columns.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  std::string text() const;
  // In at most `width` columns, 20 or more: cells go on to more lines, numbers and short words stay whole; where even that is
  // too wide, rows stand below one another, a line a cell. Cells are printable() and not painted.
  std::string text(std::size_t width) const;

 private:
  using Lines = std::vector<std::string>;
  std::vector<std::size_t> natural_widths() const;
  std::optional<std::vector<std::size_t>> widths_within(std::size_t width) const;
  std::string grid(const std::vector<std::size_t>& widths) const;
  std::string list(std::size_t width) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// A horizontal bar of value / largest of `width` columns, in eighths of a column.
std::string bar(double value, double largest, int width);

struct Bar {
  std::string label;
  double value = 0;
};
// One bar a line, with label and value, in at most `width` (20 or more) columns. Title, unit and labels are printable().
std::string bar_chart(std::string_view title, std::string_view unit, const std::vector<Bar>& bars, int width = terminal_width(),
                      Colour colour = Colour::blue);
// "1,234.5"; what is below 1 keeps two digits that are not 0.
std::string bar_value(double value);

}  // namespace dhyan::app

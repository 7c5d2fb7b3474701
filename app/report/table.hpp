// SPDX-License-Identifier: Apache-2.0
// Tables and bars for a terminal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

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

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// A horizontal bar of value / largest of `width` columns, in eighths of a column.
std::string bar(double value, double largest, int width);

struct Bar {
  std::string label;
  double value = 0;
};
// One bar a line, with label and value.
std::string bar_chart(std::string_view title, std::string_view unit, const std::vector<Bar>& bars);

}  // namespace dhyan::app

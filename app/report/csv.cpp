// SPDX-License-Identifier: Apache-2.0
#include "report/csv.hpp"

#include <fmt/format.h>

namespace dhyan::report {
namespace {

std::string field(const std::string& text, bool alone) {
  if (text.find_first_of(",\"\r\n") == std::string::npos && !(alone && text.empty())) return text;
  std::string quoted(1, '"');
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  quoted += '"';
  return quoted;
}

}  // namespace

std::string csv(const Table& table) {
  std::string text;
  const bool alone = table.columns.size() == 1;  // an empty line would be no row
  const auto line = [&](std::size_t cells, auto&& cell) {
    for (std::size_t i = 0; i < cells; ++i) {
      if (i > 0) text += ',';
      text += field(cell(i), alone);
    }
    text += "\r\n";
  };
  line(table.columns.size(), [&](std::size_t i) { return table.columns[i].key; });
  for (const std::vector<Cell>& row : table.rows) {
    line(row.size(), [&](std::size_t i) {
      if (row[i].value) return fmt::format("{}", *row[i].value);
      return row[i].text == "–" ? std::string() : row[i].text;  // the dash of an absent number is for the eye
    });
  }
  return text;
}

}  // namespace dhyan::report

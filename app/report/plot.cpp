// SPDX-License-Identifier: Apache-2.0
#include "report/plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "report/table.hpp"
#include "report/terminal.hpp"

namespace dhyan::report {
namespace {

using app::Colour;
using app::display_width;
using app::painted;
using app::printable;
using app::wrapped;

constexpr int plot_height = 14;
constexpr int widest_plot = 60;

// Wide enough that differences of doubles do not overflow.
using Real = long double;

// The terminal's colour nearest to "#rrggbb".
Colour nearest(const std::string& colour) {
  if (colour.size() != 7) return Colour::none;
  const auto part = [&](std::size_t i) { return std::strtol(colour.substr(1 + 2 * i, 2).c_str(), nullptr, 16); };
  const long red = part(0), green = part(1), blue = part(2);
  if (red >= green && red >= blue) return Colour::red;
  if (green >= blue) return Colour::green;
  return red > green ? Colour::magenta : Colour::blue;
}

std::string_view sign_of(Marker marker) {
  constexpr std::string_view signs[] = {"○", "□", "◇", "△"};
  return signs[static_cast<int>(marker)];
}

// An axis from its least to its largest value, straight or logarithmic.
class Axis {
 public:
  Axis(Real least, Real largest, bool logarithmic) : least_(least), largest_(largest), logarithmic_(logarithmic) {}

  // 0 at the least value, 1 at the largest.
  double share(Real value) const {
    const Real low = scaled(least_), high = scaled(largest_);
    return high > low ? static_cast<double>(std::clamp<Real>((scaled(value) - low) / (high - low), 0, 1)) : 0.5;
  }

  // Round values, few enough to stand beside a plot.
  std::vector<Real> ticks() const {
    if (logarithmic_) return logarithmic_ticks();
    if (!(largest_ > least_)) return {least_};
    const Real step = round_step();
    std::vector<Real> ticks;
    for (Real tick = std::ceil(least_ / step); tick * step <= largest_ * (1 + 1e-9L) && ticks.size() < 8; ++tick) {
      ticks.push_back(tick * step);
    }
    return ticks;
  }

 private:
  Real scaled(Real value) const { return logarithmic_ ? std::log10(value) : value; }

  // 1, 2 or 5 times a power of ten: four steps or a few more over the axis.
  Real round_step() const {
    const Real rough = (largest_ - least_) / 5;
    const Real power = std::pow(Real{10}, std::floor(std::log10(rough)));
    for (const int factor : {1, 2, 5}) {
      if (factor * power >= rough) return factor * power;
    }
    return 10 * power;
  }

  std::vector<Real> logarithmic_ticks() const {
    const int first = static_cast<int>(std::floor(std::log10(least_)));
    const int last = static_cast<int>(std::ceil(std::log10(largest_)));
    const int stride = std::max(1, (last - first) / 5);
    std::vector<Real> ticks;
    for (int power = first; power <= last; power += stride) {
      for (const int factor : {1, 2, 5}) {
        const Real tick = factor * std::pow(Real{10}, power);
        if (tick >= least_ && tick <= largest_ && (factor == 1 || last - first < 4)) ticks.push_back(tick);
      }
    }
    return ticks;
  }

  Real least_, largest_;
  bool logarithmic_;
};

// Axes that hold every point. A logarithmic one needs values above 0, and is straight where there are others.
Axis axis_of(const Chart& chart, double Point::*coordinate, bool from_zero) {
  Real least = 0, largest = 0;
  bool any = false;
  for (const Series& series : chart.series) {
    for (const Point& point : series.points) {
      const Real value = point.*coordinate;
      if (!std::isfinite(point.y) || !std::isfinite(point.x)) continue;
      least = any ? std::min(least, value) : value;
      largest = any ? std::max(largest, value) : value;
      any = true;
    }
  }
  const bool logarithmic = chart.logarithmic && any && least > 0;
  if (from_zero && !logarithmic) {
    least = std::min<Real>(least, 0);
    largest = std::max<Real>(largest, 0);
  }
  return {least, largest, logarithmic};
}

// Characters over Braille dots, two by four in each character's place.
class Canvas {
 public:
  Canvas(int columns, int rows)
      : columns_(columns), rows_(rows), cells_(static_cast<std::size_t>(columns) * static_cast<std::size_t>(rows)) {}

  int column(double share) const { return static_cast<int>(std::lround(share * (columns_ - 1))); }
  int row(double share) const { return static_cast<int>(std::lround((1 - share) * (rows_ - 1))); }

  void mark(int column, int row, std::string_view sign, Colour colour) {
    Cell& cell = at(column, row);
    cell.sign = cell.sign.empty() ? sign : "*";
    cell.colour = cell.sign == "*" ? Colour::none : colour;
  }

  // Dots from the middle of one place to the middle of another.
  void join(int column, int row, int to_column, int to_row, Colour colour) {
    const int steps = std::max(2 * std::abs(to_column - column), 4 * std::abs(to_row - row));
    for (int i = 0; i <= steps; i += 2) {
      const double part = steps > 0 ? static_cast<double>(i) / steps : 0;
      const int x = static_cast<int>(std::lround(2 * (column + part * (to_column - column)) + 0.5));
      const int y = static_cast<int>(std::lround(4 * (row + part * (to_row - row)) + 1.5));
      Cell& cell = at(std::min(x / 2, columns_ - 1), std::min(y / 4, rows_ - 1));
      cell.dots |= dot(x % 2, y % 4);
      cell.colour = colour;
    }
  }

  std::string line(int row) const {
    std::string text;
    for (int c = 0; c < columns_; ++c) {
      const Cell& cell = cells_[index(c, row)];
      text += !cell.sign.empty() ? painted(cell.colour, cell.sign) : cell.dots ? painted(cell.colour, braille(cell.dots)) : " ";
    }
    return text;
  }

  // Whether a sign was put over another.
  bool crowded() const {
    return std::any_of(cells_.begin(), cells_.end(), [](const Cell& cell) { return cell.sign == "*"; });
  }

 private:
  struct Cell {
    std::string_view sign = {};
    unsigned dots = 0;
    Colour colour = Colour::none;
  };

  // Unicode numbers the dots of a place down the left side, down the right, then the two at the bottom.
  static unsigned dot(int x, int y) {
    constexpr unsigned bits[2][4] = {{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}};
    return bits[x][y];
  }
  static std::string braille(unsigned dots) {  // U+2800 and on
    return {'\xe2', static_cast<char>(0xa0 | dots >> 6), static_cast<char>(0x80 | (dots & 0x3f))};
  }

  std::size_t index(int column, int row) const {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(columns_) + static_cast<std::size_t>(column);
  }
  Cell& at(int column, int row) { return cells_[index(column, row)]; }

  int columns_, rows_;
  std::vector<Cell> cells_;
};

std::string number(Real value) { return fmt::format("{:.4g}", static_cast<double>(value)); }

// Labels of the left edge, by row.
std::vector<std::string> row_labels(const Axis& axis, const Canvas& canvas, const std::string& unit) {
  std::vector<std::string> labels(plot_height);
  for (const Real tick : axis.ticks()) {
    std::string& label = labels[static_cast<std::size_t>(canvas.row(axis.share(tick)))];
    if (label.empty())
      label = number(tick) + (unit.empty() || display_width(unit) > 5 ? "" : " ") + (display_width(unit) > 5 ? "" : unit);
  }
  return labels;
}

// The bottom edge with a tick at every measured x, and under it the values, where they fit.
std::string bottom(const Chart& chart, const Axis& axis, const Canvas& canvas, int columns, std::size_t indent) {
  std::vector<double> measured;
  for (const Series& series : chart.series) {
    for (const Point& point : series.points) {
      if (std::isfinite(point.x) && std::isfinite(point.y)) measured.push_back(point.x);
    }
  }
  std::sort(measured.begin(), measured.end());
  std::vector<std::string_view> edge(static_cast<std::size_t>(columns), "─");
  std::string labels(static_cast<std::size_t>(columns), ' ');
  std::ptrdiff_t free_from = 0;
  for (const double x : measured) {
    const auto place = static_cast<std::size_t>(canvas.column(axis.share(x)));
    if (edge[place] == "┬") continue;
    edge[place] = "┬";
    const std::string label = number(x);
    const auto length = static_cast<std::ptrdiff_t>(label.size());
    const auto start = std::clamp<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(place) - length / 2, 0, columns - length);
    if (start < free_from || length > columns) continue;
    labels.replace(static_cast<std::size_t>(start), label.size(), label);
    free_from = start + length + 1;
  }
  std::string text = std::string(indent, ' ') + " └";
  for (const std::string_view part : edge) text += part;
  labels.erase(labels.find_last_not_of(' ') + 1);
  return text + "\n" + std::string(indent + 2, ' ') + labels + "\n";
}

std::string legend(const Chart& chart, bool crowded, int width) {
  std::string text, line;
  std::size_t used = 0;
  const auto add = [&](std::string_view sign, Colour colour, const std::string& label) {
    const std::size_t room = static_cast<std::size_t>(width) - 4;
    const std::vector<std::string> parts = wrapped(label, room);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::size_t needed = 4 + display_width(parts[i]);
      if (used > 0 && (i > 0 || used + needed > static_cast<std::size_t>(width))) {
        text += line + "\n";
        line.clear();
        used = 0;
      }
      line += std::string(2, ' ') + (i == 0 ? painted(colour, sign) : " ") + " " + parts[i];
      used += needed;
    }
  };
  for (const Series& series : chart.series) add(sign_of(series.marker), nearest(series.colour), printable(series.label));
  if (crowded) add("*", Colour::none, "several");
  return text + line + (line.empty() ? "" : "\n");
}

std::string lines_of(const Text& text, int width, Colour colour, std::size_t indent = 0) {
  std::string result;
  if (text.en.empty()) return result;
  for (const std::string& line : wrapped(printable(text.en), static_cast<std::size_t>(width) - indent)) {
    result += std::string(indent, ' ') + painted(colour, line) + "\n";
  }
  return result;
}

}  // namespace

std::string plot_bars(const Chart& chart, int width) {
  std::vector<app::Bar> bars;
  for (const Series& series : chart.series) bars.push_back({printable(series.label), series.points.at(0).y});
  return app::bar_chart(printable(chart.title.en), printable(chart.unit), bars, width,
                        chart.better == Better::higher ? Colour::green : Colour::blue) +
         lines_of(in_words(chart.better), width, Colour::dim) + lines_of(chart.caption, width, Colour::dim);
}

std::string plot_lines(const Chart& chart, int width) {
  const Axis x = axis_of(chart, &Point::x, false), y = axis_of(chart, &Point::y, true);
  std::size_t indent = 0;
  for (const std::string& label : row_labels(y, Canvas(2, plot_height), printable(chart.unit))) {
    indent = std::max(indent, display_width(label));
  }
  const int columns = std::clamp(width - static_cast<int>(indent) - 2, 10, widest_plot);
  Canvas canvas(columns, plot_height);
  for (const bool signs : {false, true}) {
    for (const Series& series : chart.series) {
      const Point* before = nullptr;
      for (const Point& point : series.points) {
        const bool drawn = std::isfinite(point.x) && std::isfinite(point.y);
        const int column = drawn ? canvas.column(x.share(point.x)) : 0, row = drawn ? canvas.row(y.share(point.y)) : 0;
        if (drawn && signs) canvas.mark(column, row, sign_of(series.marker), nearest(series.colour));
        if (drawn && !signs && before) {
          canvas.join(canvas.column(x.share(before->x)), canvas.row(y.share(before->y)), column, row, nearest(series.colour));
        }
        before = drawn ? &point : nullptr;
      }
    }
  }
  std::string text = lines_of(chart.title, width, Colour::bold) + lines_of(chart.y_title, width, Colour::dim);
  const std::vector<std::string> labels = row_labels(y, canvas, printable(chart.unit));
  for (int row = 0; row < plot_height; ++row) {
    const std::string& label = labels[static_cast<std::size_t>(row)];
    std::string line =
        std::string(indent - display_width(label), ' ') + label + (label.empty() ? " │" : " ┤") + canvas.line(row);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  text += bottom(chart, x, canvas, columns, indent);
  text += lines_of(chart.x_title, width, Colour::dim, std::min<std::size_t>(indent + 2, static_cast<std::size_t>(width) / 2));
  text += legend(chart, canvas.crowded(), width);
  return text + lines_of(in_words(chart.better), width, Colour::dim) + lines_of(chart.caption, width, Colour::dim);
}

std::string plot_heat(const Chart& chart, int width) {
  // Each shade begins at a quarter of the next one's least value: weights differ by factors.
  constexpr std::pair<std::string_view, double> shades[] = {{"█", 0.25}, {"▓", 0.0625}, {"▒", 0.015625}, {"░", 0}};
  const Heat& heat = chart.heat;
  // Values that share a place when there are more than fit: the largest of them is drawn.
  const std::int64_t share = (heat.columns + width - 1) / width;
  const std::int64_t columns = (heat.columns + share - 1) / share, rows = (heat.rows + share - 1) / share;
  const bool square = 2 * columns <= width;  // a character is twice as high as wide
  double largest = 0;
  for (const std::optional<double>& value : heat.values) {
    if (value && std::isfinite(*value)) largest = std::max(largest, *value);
  }
  std::string text = lines_of(chart.title, width, Colour::bold);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      std::optional<double> most;
      for (std::int64_t r = row * share; r < std::min(heat.rows, (row + 1) * share); ++r) {
        for (std::int64_t c = column * share; c < std::min(heat.columns, (column + 1) * share); ++c) {
          const std::optional<double>& value = heat.values[static_cast<std::size_t>(r * heat.columns + c)];
          if (value && (!most || *value > *most)) most = value;
        }
      }
      std::string_view sign = most ? " " : "·";
      for (const auto& [shade, from] : shades) {
        if (!most || !(*most > 0) || *most < from * largest) continue;
        sign = shade;
        break;
      }
      text += most ? std::string(sign) : painted(Colour::dim, sign);
      if (square) text += most ? std::string(sign) : " ";
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += "\n";
  }
  std::string key = fmt::format("Largest {}. ", number(largest));
  for (const auto& [shade, from] : shades) {
    key += from > 0 ? fmt::format("{} from {:.2g}, ", shade, from * largest) : fmt::format("{} above 0; · hidden.", shade);
  }
  if (share > 1) key += fmt::format(" Each place shows the largest of {0} x {0} values.", share);
  if (!chart.y_title.en.empty()) key += fmt::format(" Down: {}.", chart.y_title.en);
  if (!chart.x_title.en.empty()) key += fmt::format(" Across: {}.", chart.x_title.en);
  return text + lines_of({key, ""}, width, Colour::dim) + lines_of(chart.caption, width, Colour::dim);
}

}  // namespace dhyan::report

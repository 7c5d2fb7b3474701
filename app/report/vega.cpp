// SPDX-License-Identifier: Apache-2.0
#include "report/vega.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <set>

namespace dhyan::report {
namespace {

using Json = nlohmann::ordered_json;

// A colour for light backgrounds, and its counterpart of equal meaning for dark ones.
struct ColourPair {
  std::string light, dark;
};
const std::array<ColourPair, 4> colour_pairs = {
    {{"#d1242f", "#ff7b72"}, {"#0969da", "#58a6ff"}, {"#8250df", "#bc8cff"}, {"#1a7f37", "#3fb950"}}};
const ColourPair grey = {"#59636e", "#9198a1"};
const ColourPair lower_is_better = colour_pairs[1], higher_is_better = colour_pairs[3];

const std::array<Json, 4> dashes = {Json::array({1, 0}), Json::array({7, 4}), Json::array({2, 3}), Json::array({9, 3, 2, 3})};
const std::array<double, 4> shades = {1, 0.62, 0.42, 0.28};

// Only #rrggbb goes into a picture: other forms can point to files.
ColourPair colours_of(const std::string& colour) {
  const bool plain =
      colour.size() == 7 && colour[0] == '#' && colour.find_first_not_of("0123456789abcdefABCDEF", 1) == std::string::npos;
  if (!plain) return grey;
  for (const ColourPair& pair : colour_pairs) {
    if (pair.light == colour) return pair;
  }
  return {colour, colour};
}

const char* shape_of(Marker marker) {
  switch (marker) {
    case Marker::circle:
      return "circle";
    case Marker::square:
      return "square";
    case Marker::diamond:
      return "diamond";
    case Marker::triangle:
      return "triangle-up";
  }
  return "circle";
}

// A string literal of Vega's expressions.
std::string quoted(const std::string& text) { return Json(clean(text)).dump(-1, ' ', true); }

std::string words(const Text& text) {
  return text.hi.empty() ? quoted(text.en) : fmt::format("(hindi ? {} : {})", quoted(text.hi), quoted(text.en));
}

Json signal(const std::string& expression) { return {{"signal", expression}}; }

std::string either(const ColourPair& pair) { return fmt::format("(dark ? '{}' : '{}')", pair.dark, pair.light); }

// An expression that shows `value` (an expression too) with its unit.
std::string amount(const std::string& value, const std::string& unit) {
  if (unit == "bytes") {
    return fmt::format(
        "({0} >= 1073741824 ? format({0} / 1073741824, ',.4~g') + ' GiB' : {0} >= 1048576 ? format({0} / 1048576, ',.4~g') + "
        "' MiB' : {0} >= 1024 ? format({0} / 1024, ',.4~g') + ' KiB' : format({0}, ',.0f') + ' B')",
        value);
  }
  const std::string number = fmt::format("format({0}, {0} < 0.1 ? '.4f' : {0} < 1 ? '.2f' : ',.1f')", value);
  return unit.empty() ? number : fmt::format("({} + {})", number, quoted(" " + unit));
}

// Six digits are more than any measurement has.
Json number(double value) {
  if (!std::isfinite(value)) return nullptr;
  return std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr);
}
Json number(const std::optional<double>& value) { return value ? number(*value) : Json(nullptr); }

std::string label_of(const Series& series, const std::string& run) {
  return clean(run.empty() ? series.label : series.label + " · " + run);
}

const Series* baseline_of(const Chart& chart) {
  const auto at = std::find_if(chart.series.begin(), chart.series.end(),
                               [&](const Series& s) { return !chart.baseline.empty() && s.key == chart.baseline; });
  return at == chart.series.end() ? nullptr : &*at;
}

// What the baseline has at x; bars have one point each.
std::optional<double> base_at(const Chart& chart, double x) {
  const Series* baseline = baseline_of(chart);
  if (baseline == nullptr) return std::nullopt;
  for (const Point& point : baseline->points) {
    if (point.x == x || chart.kind == ChartKind::bars) return point.y;
  }
  return std::nullopt;
}

// Every point with the label of its series; `shown`, `from` and `to` are what is drawn, in the unit or as speed-up.
Json points_of(std::span<const RunChart> charts) {
  Json values = Json::array();
  for (std::size_t run = 0; run < charts.size(); ++run) {
    const Chart& chart = *charts[run].chart;
    for (const Series& series : chart.series) {
      for (const Point& point : series.points) {
        if (!std::isfinite(point.x) || !std::isfinite(point.y)) continue;
        values.push_back({{"series", label_of(series, charts[run].run)},
                          {"key", series.key},
                          {"group", 0},
                          {"run", run},
                          {"x", number(point.x)},
                          {"y", number(point.y)},
                          {"low", number(point.low)},
                          {"high", number(point.high)},
                          {"base", number(base_at(chart, point.x))}});
      }
    }
  }
  const auto ratio = [](const char* name) {
    return fmt::format("speedup ? (datum.{0} > 0 && isValid(datum.base) ? datum.base / datum.{0} : null) : datum.{0}", name);
  };
  return {
      {"name", "points"},
      {"values", values},
      {"transform",
       {{{"type", "formula"}, {"as", "shown"}, {"expr", ratio("y")}},
        {{"type", "formula"}, {"as", "from"}, {"expr", ratio("low")}},
        {{"type", "formula"}, {"as", "to"}, {"expr", ratio("high")}},
        {{"type", "filter"}, {"expr", "isValid(datum.shown)"}},
        {{"type", "formula"}, {"as", "spread"}, {"expr", "isValid(datum.from) && isValid(datum.to)"}},
        {{"type", "formula"}, {"as", "start"}, {"expr", "datum.spread ? min(datum.shown, datum.from, datum.to) : datum.shown"}},
        {{"type", "formula"},
         {"as", "end"},
         {"expr", "datum.spread ? max(datum.shown, datum.from, datum.to) : datum.shown"}}}}};
}

std::string shown_amount(const std::string& value, const std::string& unit) {
  return fmt::format("(speedup ? format({}, '.2f') + '×' : {})", value, amount(value, unit));
}

// The lines of a hint; `place` says where the point is.
std::string hint(const std::string& place, const std::string& unit) {
  return fmt::format("datum.series + {} + '\\n' + {} + (datum.spread ? '\\np10–p90: ' + {} + ' – ' + {} : '')", place,
                     shown_amount("datum.shown", unit), shown_amount("min(datum.from, datum.to)", unit),
                     shown_amount("max(datum.from, datum.to)", unit));
}

std::string speedup_title(const Chart& chart) {
  const Series* baseline = baseline_of(chart);
  const std::string name = baseline == nullptr ? "" : baseline->label;
  return words({"Speed-up over " + name, name + " से कितने गुना तेज़"});
}

// What all kinds share.
Json frame(const Chart& chart, bool logarithmic) {
  Json j = {{"$schema", "https://vega.github.io/schema/vega/v5.json"}};
  j["description"] = clean(chart.alternative.en);
  j["usermeta"] = {{"logarithmic", logarithmic}};
  j["width"] = 640;
  j["autosize"] = {{"type", "fit-x"}, {"contains", "padding"}};
  j["padding"] = 4;
  j["background"] = signal("paper");
  const char* font = "system-ui, 'Noto Sans', 'Noto Sans Devanagari', 'Lohit Devanagari', sans-serif";
  j["config"] = {{"aria", false},  // the figure has its own words
                 {"text", {{"font", font}}},
                 {"style",
                  {{"guide-label", {{"font", font}, {"fontSize", 12}}},
                   {"guide-title", {{"font", font}, {"fontSize", 12}, {"fontWeight", 600}}},
                   {"group-title", {{"font", font}}}}}};
  j["title"] = {{"text", signal(fmt::format("titled ? {} : ''", words(chart.title)))},
                {"anchor", "start"},
                {"fontSize", signal("titled ? 14 : 1")},
                {"offset", signal("titled ? 14 : 0")},
                {"color", signal("ink")}};
  j["signals"] = Json::array();
  for (const char* name : {"hindi", "dark", "speedup", "titled"}) j["signals"].push_back({{"name", name}, {"value", false}});
  j["signals"].push_back({{"name", "ink"}, {"update", either({"#1f2328", "#e6edf3"})}});
  j["signals"].push_back({{"name", "soft"}, {"update", either(grey)}});
  j["signals"].push_back({{"name", "faint"}, {"update", either({"#d8dee4", "#30363d"})}});
  j["signals"].push_back({{"name", "paper"}, {"update", either({"#ffffff", "#161b22"})}});
  return j;
}

Json axis(const char* orient, const char* scale, const std::string& title) {
  return {{"orient", orient},
          {"scale", scale},
          {"title", signal(title)},
          {"titleColor", signal("soft")},
          {"labelColor", signal("soft")},
          {"domainColor", signal("faint")},
          {"tickColor", signal("faint")},
          {"gridColor", signal("faint")}};
}

// The title of a vertical axis stands level above it: it is easier to read there, and a phone has no width to spare.
Json level(Json axis) {
  axis["titleAngle"] = 0;
  axis["titleAlign"] = "left";
  axis["titleAnchor"] = "end";
  axis["titleBaseline"] = "bottom";
  axis["titleX"] = -36;
  axis["titleY"] = -10;
  return axis;
}

Json lines(std::span<const RunChart> charts) {
  const Chart& first = *charts.front().chart;
  Json labels = Json::array(), light = Json::array(), dark = Json::array(), shapes = Json::array(), dash = Json::array(),
       filled_light = Json::array(), filled_dark = Json::array();
  std::set<double> measured;
  for (std::size_t run = 0; run < charts.size(); ++run) {
    for (const Series& series : charts[run].chart->series) {
      const ColourPair pair = colours_of(series.colour);
      labels.push_back(label_of(series, charts[run].run));
      light.push_back(pair.light);
      dark.push_back(pair.dark);
      filled_light.push_back(run % 2 == 0 ? "#ffffff" : pair.light);
      filled_dark.push_back(run % 2 == 0 ? "#161b22" : pair.dark);
      shapes.push_back(shape_of(series.marker));
      dash.push_back(dashes[run % dashes.size()]);
      for (const Point& point : series.points) {
        if (std::isfinite(point.x)) measured.insert(point.x);
      }
    }
  }
  Json j = frame(first, first.logarithmic && can_be_logarithmic(charts));
  j["height"] = 300;
  j["data"] = Json::array({points_of(charts)});
  const auto ordinal = [&](const char* name, Json range) {
    return Json{{"name", name}, {"type", "ordinal"}, {"domain", labels}, {"range", std::move(range)}};
  };
  const auto by_theme = [](const Json& a, const Json& b) { return signal(fmt::format("dark ? {} : {}", b.dump(), a.dump())); };
  j["scales"] = {{{"name", "x"},
                  {"type", "linear"},
                  {"domain", {{"data", "points"}, {"field", "x"}}},
                  {"range", "width"},
                  {"zero", false},
                  {"padding", 14}},
                 {{"name", "y"},
                  {"type", "linear"},
                  {"domain", {{"data", "points"}, {"fields", {"start", "end"}}}},
                  {"range", "height"},
                  {"nice", 6}},
                 ordinal("colour", by_theme(light, dark)),
                 ordinal("fill", by_theme(filled_light, filled_dark)),
                 ordinal("shape", shapes),
                 ordinal("dash", dash)};
  Json x = axis("bottom", "x", words(first.x_title));
  x["values"] = measured;
  x["encode"] = {{"labels", {{"update", {{"text", signal("format(datum.value, ',~f')")}}}}}};
  x["labelOverlap"] = "greedy";
  x["labelSeparation"] = 3;
  Json y = level(axis("left", "y", fmt::format("speedup ? {} : {}", speedup_title(first), words(first.y_title))));
  y["grid"] = true;
  y["tickCount"] = 6;
  y["labelOverlap"] = "greedy";
  y["domain"] = false;
  y["ticks"] = false;
  y["minExtent"] = 32;
  if (first.unit == "bytes") y["encode"] = {{"labels", {{"update", {{"text", signal(amount("datum.value", first.unit))}}}}}};
  j["axes"] = {x, y};
  j["legends"] = Json::array({{{"stroke", "colour"},
                               {"fill", "fill"},
                               {"shape", "shape"},
                               {"orient", "bottom"},
                               {"direction", "horizontal"},
                               {"columns", signal(charts.size() > 1 ? fmt::format("width < 520 ? 1 : {}",
                                                                                  std::min<std::size_t>(first.series.size(), 4))
                                                                    : "width < 420 ? 2 : 4")},
                               {"labelColor", signal("ink")},
                               {"labelLimit", signal("width < 520 ? width - 40 : 300")},
                               {"labelFontSize", 13},
                               {"symbolSize", 90},
                               {"symbolStrokeWidth", 2},
                               {"offset", 12},
                               {"rowPadding", 6},
                               {"columnPadding", 18}}});
  const auto at = [](const char* scale, const char* field) { return Json{{"scale", scale}, {"field", field}}; };
  Json whiskers = {{"type", "rule"},
                   {"from", {{"data", "of_series"}}},
                   {"encode",
                    {{"update",
                      {{"x", at("x", "x")},
                       {"y", signal("datum.spread ? scale('y', datum.from) : 0")},
                       {"y2", signal("datum.spread ? scale('y', datum.to) : 0")},
                       {"stroke", at("colour", "series")},
                       {"opacity", signal("datum.spread ? 0.55 : 0")},
                       {"strokeWidth", {{"value", 4}}},
                       {"strokeCap", {{"value", "round"}}}}}}}};
  Json line = {{"type", "line"},
               {"from", {{"data", "of_series"}}},
               {"sort", {{"field", "datum.x"}}},
               {"encode",
                {{"update",
                  {{"x", at("x", "x")},
                   {"y", at("y", "shown")},
                   {"stroke", at("colour", "series")},
                   {"strokeDash", at("dash", "series")},
                   {"strokeWidth", {{"value", 2}}}}}}}};
  Json markers = {{"type", "symbol"},
                  {"from", {{"data", "of_series"}}},
                  {"encode",
                   {{"update",
                     {{"x", at("x", "x")},
                      {"y", at("y", "shown")},
                      {"shape", at("shape", "series")},
                      {"stroke", at("colour", "series")},
                      {"fill", at("fill", "series")},
                      {"strokeWidth", {{"value", 2}}},
                      {"size", {{"value", 75}}}}}}}};
  // A finger is wider than a marker.
  const std::string place = fmt::format("'\\n' + {} + ' ' + format(datum.x, ',~f')", words(first.x_title));
  Json targets = {{"type", "symbol"},
                  {"from", {{"data", "points"}}},
                  {"encode",
                   {{"update",
                     {{"x", at("x", "x")},
                      {"y", at("y", "shown")},
                      {"fill", {{"value", "transparent"}}},
                      {"size", {{"value", 500}}},
                      {"tooltip", signal(hint(place, first.unit))}}}}}};
  j["marks"] = {{{"type", "group"},
                 {"from", {{"facet", {{"name", "of_series"}, {"data", "points"}, {"groupby", "series"}}}}},
                 {"marks", {whiskers, line, markers}}},
                targets};
  return j;
}

// Puts the bars of one series together, those of all runs; how many groups that makes.
int group_by_series(Json& values) {
  std::vector<std::string> keys;
  for (Json& value : values) {
    auto at = std::find(keys.begin(), keys.end(), value["key"].get<std::string>());
    if (at == keys.end()) at = keys.insert(keys.end(), value["key"].get<std::string>());
    value["group"] = at - keys.begin();
  }
  std::vector<Json> sorted = values;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Json& a, const Json& b) { return a["group"] < b["group"]; });
  values = sorted;
  return static_cast<int>(keys.size());
}

Json bars(std::span<const RunChart> charts) {
  const Chart& first = *charts.front().chart;
  Json data = points_of(charts);
  const int groups = charts.size() > 1 ? group_by_series(data["values"]) : 0;
  data["transform"].push_back({{"type", "window"}, {"ops", {"row_number"}}, {"as", {"row"}}});
  Json j = frame(first, false);
  constexpr int band = 46, gap = 14;
  j["height"] = band * static_cast<int>(data["values"].size()) + gap * std::max(groups - 1, 0);
  const Better better = first.better;
  const std::string plain = either(better == Better::higher ? higher_is_better : lower_is_better);
  j["signals"].push_back({{"name", "colour"}, {"update", fmt::format("speedup ? {} : {}", either(higher_is_better), plain)}});
  j["signals"].push_back({{"name", "room"}, {"update", "max(60, width - 8)"}});  // the last stroke ends inside
  j["data"] = Json::array({data});
  j["scales"] = Json::array({{{"name", "x"},
                              {"type", "linear"},
                              {"domain", {{"data", "points"}, {"fields", {"shown", "end"}}}},
                              {"range", {0, signal("room")}}}});
  const std::string top = fmt::format("((datum.row - 1) * {} + datum.group * {})", band, gap);
  const std::string length = "max(0.03 * room, scale('x', datum.shown))";
  const std::string note = hint("''", first.unit);
  const auto text = [&](const std::string& what, const std::string& x, const std::string& y, const char* colour, int weight) {
    return Json{{"type", "text"},
                {"from", {{"data", "points"}}},
                {"encode",
                 {{"update",
                   {{"text", signal(what)},
                    {"x", signal(x)},
                    {"y", signal(y)},
                    {"baseline", {{"value", "middle"}}},
                    {"fontSize", {{"value", 13}}},
                    {"fontWeight", {{"value", weight}}},
                    {"limit", signal("width")},
                    {"fill", signal(colour)},
                    {"tooltip", signal(note)}}}}}};
  };
  const Json rectangle = {{"type", "rect"},
                          {"from", {{"data", "points"}}},
                          {"encode",
                           {{"update",
                             {{"x", {{"value", 0}}},
                              {"y", signal(top + " + 19")},
                              {"width", signal(length)},
                              {"height", {{"value", 17}}},
                              {"cornerRadiusTopRight", {{"value", 3}}},
                              {"cornerRadiusBottomRight", {{"value", 3}}},
                              {"fill", signal("colour")},
                              {"fillOpacity", signal(fmt::format("{}[datum.run % 4]", Json(shades).dump()))},
                              {"tooltip", signal(note)}}}}}};
  const Json whiskers = {{"type", "rule"},
                         {"from", {{"data", "points"}}},
                         {"encode",
                          {{"update",
                            {{"x", signal("datum.spread ? scale('x', datum.from) : 0")},
                             {"x2", signal("datum.spread ? scale('x', datum.to) : 0")},
                             {"y", signal(top + " + 27.5")},
                             {"stroke", signal("ink")},
                             {"strokeWidth", {{"value", 2}}},
                             {"opacity", signal("datum.spread ? 0.7 : 0")},
                             {"tooltip", signal(note)}}}}}};
  // The value stands with the name: behind the stroke of a noisy bar it would look like the end of a longer one.
  const std::string label = fmt::format("datum.series + '  ' + ({})", shown_amount("datum.shown", first.unit));
  j["marks"] = {rectangle, whiskers, text(label, "0", top + " + 9", "ink", 500)};
  return j;
}

Json heat(const Chart& chart) {
  const Heat& heat = chart.heat;
  Json j = frame(chart, false);
  j["width"] = 420;
  const std::int64_t rows = std::max<std::int64_t>(heat.rows, 1), columns = std::max<std::int64_t>(heat.columns, 1);
  j["signals"].push_back({{"name", "height"}, {"update", fmt::format("width * {} / {}", rows, columns)}});
  Json values = Json::array();
  double top = 1e-30;
  for (const std::optional<double>& value : heat.values) {
    if (value && std::isfinite(*value)) top = std::max(top, *value);
    values.push_back(value && std::isfinite(*value) ? Json(std::strtod(fmt::format("{:.3g}", *value).c_str(), nullptr))
                                                    : Json(-1));  // hidden
  }
  j["data"] =
      Json::array({{{"name", "cells"},
                    {"values", values},
                    {"transform",
                     {{{"type", "window"}, {"ops", {"row_number"}}, {"as", {"order"}}},
                      {{"type", "formula"}, {"as", "row"}, {"expr", fmt::format("floor((datum.order - 1) / {})", columns)}},
                      {{"type", "formula"}, {"as", "column"}, {"expr", fmt::format("(datum.order - 1) % {}", columns)}},
                      {{"type", "filter"}, {"expr", "datum.data >= 0"}}}}}});
  j["scales"] = {{{"name", "x"}, {"type", "linear"}, {"domain", {0, columns}}, {"range", "width"}},
                 {{"name", "y"}, {"type", "linear"}, {"domain", {0, rows}}, {"range", {0, signal("height")}}},
                 {{"name", "shade"},
                  {"type", "sqrt"},  // most weights are small
                  {"domain", {0, top / 4, top}},
                  {"interpolate", "rgb"},
                  {"range", signal("dark ? ['#1c2530', '#58a6ff', '#f0f6fc'] : ['#eef4fb', '#4a94e8', '#0a3069']")}}};
  Json x = axis("bottom", "x", words(chart.x_title));
  Json y = level(axis("left", "y", words(chart.y_title)));
  for (Json* a : {&x, &y}) {
    (*a)["tickCount"] = 6;
    (*a)["format"] = "d";
  }
  j["axes"] = {x, y};
  j["legends"] = Json::array({{{"fill", "shade"},
                               {"type", "gradient"},
                               {"orient", "bottom"},
                               {"direction", "horizontal"},
                               {"gradientLength", signal("width")},
                               {"gradientThickness", 8},
                               {"labelColor", signal("soft")},
                               {"tickCount", 4},
                               {"labelOverlap", "greedy"},
                               {"labelSeparation", 8},
                               {"offset", 8}}});
  const std::string place =
      fmt::format("{} + ' ' + datum.row + '\\n' + {} + ' ' + datum.column + '\\n' + format(datum.data, '.3~g')",
                  words(chart.y_title), words(chart.x_title));
  j["marks"] = Json::array({{{"type", "rect"},
                             {"from", {{"data", "cells"}}},
                             {"encode",
                              {{"update",
                                {{"x", signal("scale('x', datum.column)")},
                                 {"x2", signal("scale('x', datum.column + 1) - 0.5")},
                                 {"y", signal("scale('y', datum.row)")},
                                 {"y2", signal("scale('y', datum.row + 1) - 0.5")},
                                 {"fill", {{"scale", "shade"}, {"field", "data"}}},
                                 {"tooltip", signal(place)}}}}}}});
  return j;
}

}  // namespace

std::string clean(const std::string& text) {
  // The JSON writer replaces what is no UTF-8; control characters follow here.
  const std::string valid = Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
  std::string result;
  for (const char c : valid) {
    const bool control = (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
    result += control ? "\uFFFD" : std::string(1, c);
  }
  return result;
}

bool has_values(std::span<const RunChart> charts) {
  const auto drawn = [](const Point& p) { return std::isfinite(p.x) && std::isfinite(p.y); };
  return std::any_of(charts.begin(), charts.end(), [&](const RunChart& run) {
    const std::vector<std::optional<double>>& cells = run.chart->heat.values;
    return std::any_of(cells.begin(), cells.end(), [](const std::optional<double>& value) { return value.has_value(); }) ||
           std::any_of(run.chart->series.begin(), run.chart->series.end(),
                       [&](const Series& series) { return std::any_of(series.points.begin(), series.points.end(), drawn); });
  });
}

bool can_be_logarithmic(std::span<const RunChart> charts) {
  return charts.front().chart->kind == ChartKind::lines && std::all_of(charts.begin(), charts.end(), [](const RunChart& run) {
           return std::all_of(run.chart->series.begin(), run.chart->series.end(), [](const Series& series) {
             return std::all_of(series.points.begin(), series.points.end(), [](const Point& p) {
               return p.x > 0 && p.y > 0 && p.low.value_or(1) > 0 && p.high.value_or(1) > 0;
             });
           });
         });
}

nlohmann::ordered_json vega_specification(std::span<const RunChart> charts) {
  switch (charts.front().chart->kind) {
    case ChartKind::lines:
      return lines(charts);
    case ChartKind::bars:
      return bars(charts);
    case ChartKind::heat:
      return heat(*charts.front().chart);
  }
  return {};
}

}  // namespace dhyan::report

// SPDX-License-Identifier: Apache-2.0
#include "report/html_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "report/html.hpp"

namespace dhyan::report::html {
namespace {

std::string cell(const Cell& cell, bool numeric, bool head) {
  constexpr std::size_t one_line = 20;  // a shape, a type, a name: not to be broken on a phone
  const char* style = numeric ? " class=\"n\"" : cell.text.size() <= one_line ? " class=\"nowrap\"" : " class=\"long\"";
  const std::string text = words({cell.text, cell.hi});
  return head ? fmt::format("<th scope=\"row\"{}>{}</th>", style, text) : fmt::format("<td{}>{}</td>", style, text);
}

// For ids and file names.
std::string plain_name(const std::string& text) {
  std::string name;
  for (const char c : text) name += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' ? c : '-';
  return name;
}

std::string tool(std::string_view name, const Text& label, bool switched) {
  return fmt::format("<button type=\"button\" data-tool=\"{}\"{}>{}</button>\n", name,
                     switched ? " aria-pressed=\"false\"" : "", words(label));
}

bool has_spread(std::span<const RunChart> charts) {
  return std::any_of(charts.begin(), charts.end(), [](const RunChart& run) {
    return std::any_of(run.chart->series.begin(), run.chart->series.end(), [](const Series& series) {
      return std::any_of(series.points.begin(), series.points.end(), [](const Point& p) { return p.low && p.high; });
    });
  });
}

// The label of the series that speed-up is measured against; empty where no run has one.
std::string baseline_label(std::span<const RunChart> charts) {
  for (const RunChart& run : charts) {
    for (const Series& series : run.chart->series) {
      if (series.key == run.chart->baseline && !series.points.empty()) return series.label;
    }
  }
  return "";
}

// Every call as a stroke, relative to the median of its row: left half of it, in the middle equal, right double.
std::string spread(const Timing& timing) {
  constexpr double width = 160;
  const auto x = [&](double ms) {
    const double ratio = ms > 0 && timing.median_ms > 0 ? std::log2(ms / timing.median_ms) : 0;
    return std::clamp(width / 2 * (1 + ratio), 1.0, width - 1);
  };
  std::set<int> places;  // strokes on one another look like one
  for (const double sample : timing.samples_ms) places.insert(static_cast<int>(std::lround(x(sample))));
  std::string strokes;
  for (const int place : places) strokes += fmt::format("M{} 3v10", place);
  const double from = x(timing.p10_ms);
  return fmt::format(
      "<svg class=\"spread\" viewBox=\"0 0 160 16\" aria-hidden=\"true\"><line x1=\"80\" x2=\"80\" y1=\"0\" y2=\"16\"/>"
      "<rect x=\"{:.1f}\" y=\"1\" width=\"{:.1f}\" height=\"14\" rx=\"2\"/><path d=\"{}\"/></svg>",
      from, std::max(1.0, x(timing.p90_ms) - from), strokes);
}

// A table whose cells are markup already.
std::string markup_table(std::string_view style, const Text& caption, const std::vector<std::pair<Text, bool>>& columns,
                         const std::vector<std::vector<std::string>>& rows) {
  std::string html =
      fmt::format("<div class=\"scroll\" tabindex=\"0\"><table class=\"{}\">\n<caption><div>{}</div></caption>\n<thead><tr>",
                  style, words(caption));
  for (const auto& [title, numeric] : columns) {
    html += fmt::format("<th scope=\"col\"{}>{}</th>", numeric ? " class=\"n\"" : "", words(title));
  }
  html += "</tr></thead>\n<tbody>\n";
  for (const std::vector<std::string>& row : rows) {
    html += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      html += i == 0 ? fmt::format("<th scope=\"row\">{}</th>", row[i])
                     : fmt::format("<td{}>{}</td>", columns[i].second ? " class=\"n\"" : "", row[i]);
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

}  // namespace

std::string escaped(const std::string& text) {
  std::string html;
  for (const char c : clean(text)) {
    switch (c) {
      case '&':
        html += "&amp;";
        break;
      case '<':
        html += "&lt;";
        break;
      case '>':
        html += "&gt;";
        break;
      case '"':
        html += "&quot;";
        break;
      case '\'':
        html += "&#39;";
        break;
      default:
        html += c;
    }
  }
  return html;
}

std::string words(const Text& text) {
  if (text.hi.empty()) return escaped(text.en);
  return fmt::format("<span class=\"t\" lang=\"en\">{}</span><span class=\"t\" lang=\"hi\">{}</span>", escaped(text.en),
                     escaped(text.hi));
}

std::string paragraph(const Text& text, std::string_view style_class) {
  if (text.en.empty()) return "";
  return fmt::format("<p{}>{}</p>\n", style_class.empty() ? "" : fmt::format(" class=\"{}\"", style_class), words(text));
}

std::string json(const nlohmann::ordered_json& value) {
  const std::string text = value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  std::string html;
  for (const char c : text) html += c == '<' ? "\\u003c" : std::string(1, c);  // no </script>, no <!--
  return html;
}

std::string table(const Table& table) {
  std::string html = fmt::format("<div class=\"scroll\" tabindex=\"0\"><table>\n<caption><div>{}</div></caption>\n<thead><tr>",
                                 words(table.title));
  for (const Column& column : table.columns) {
    html += fmt::format("<th scope=\"col\"{}>{}</th>", column.numeric ? " class=\"n\"" : "", words(column.title));
  }
  html += "</tr></thead>\n<tbody>\n";
  for (const std::vector<Cell>& row : table.rows) {
    html += "<tr>";
    for (std::size_t i = 0; i < row.size() && i < table.columns.size(); ++i) {
      html += cell(row[i], table.columns[i].numeric, i == 0);
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string chart(std::span<const RunChart> charts) {
  if (!html_has_charts()) return "";
  const Chart& first = *charts.front().chart;
  if (!has_values(charts)) {
    return fmt::format("<h3>{}</h3>\n{}", words(first.title),
                       paragraph({"No value for this chart was measured.", "इस चार्ट का कोई मान नहीं मापा गया।"}, "about"));
  }
  const bool one_of_several = first.kind == ChartKind::heat && !charts.front().run.empty();  // heat maps stay apart
  const std::string id = fmt::format("chart-{}{}", first.key, one_of_several ? plain_name("-" + charts.front().run) : "");
  const char* kind = first.kind == ChartKind::bars ? "bars" : first.kind == ChartKind::lines ? "lines" : "heat";
  std::string html = fmt::format("<figure class=\"chart {}\" id=\"{}\" data-speedup=\"false\">\n<h3>{}{}</h3>\n", kind, id,
                                 words(first.title), one_of_several ? fmt::format(" · {}", escaped(charts.front().run)) : "");
  Text alternative;
  for (const RunChart& run : charts) {
    const std::string of = run.run.empty() ? "" : run.run + ": ";
    alternative.en += (alternative.en.empty() ? "" : " ") + of + run.chart->alternative.en;
    alternative.hi += (alternative.hi.empty() ? "" : " ") + of + run.chart->alternative.hi;
  }
  html += fmt::format("<div class=\"plot\" role=\"img\" aria-label=\"{0}\" data-en=\"{0}\" data-hi=\"{1}\"><div></div></div>\n",
                      escaped(alternative.en), escaped(alternative.hi.empty() ? alternative.en : alternative.hi));
  std::string caption;
  if (first.better != Better::none) {
    caption += fmt::format("<span class=\"when-plain\">{}</span><span class=\"when-speedup\">{}</span> ",
                           words(in_words(first.better)), words(in_words(Better::higher)));
  }
  caption += words(first.caption);
  if (has_spread(charts)) {
    caption += ' ';
    caption += words({"The stroke at each value spans p10 to p90.", "हर मान पर बनी पट्टी p10 से p90 तक का फैलाव दिखाती है।"});
  }
  html += fmt::format("<figcaption><p>{}</p></figcaption>\n<div class=\"tools\" hidden>\n", caption);
  if (can_be_logarithmic(charts)) html += tool("logarithmic", {"Log axes", "लघुगणकीय अक्ष"}, true);
  if (const std::string baseline = baseline_label(charts); !baseline.empty()) {
    html += tool("speedup", {"Speed-up over " + baseline, baseline + " से कितने गुना तेज़"}, true);
  }
  html += tool("save", {"Save as SVG", "SVG के रूप में सहेजें"}, false);
  html += fmt::format("</div>\n<script type=\"application/json\">{}</script>\n</figure>\n", json(vega_specification(charts)));
  return html;
}

std::string code(const Code& code) { return fmt::format("<pre tabindex=\"0\"><code>{}</code></pre>\n", escaped(code.text)); }

std::string verdict(Verdict verdict) {
  switch (verdict) {
    case Verdict::passed:
      return fmt::format("<span class=\"passed\">✓ {}</span>", words({"passed", "सफल"}));
    case Verdict::failed:
      return fmt::format("<span class=\"failed\">✗ {}</span>", words({"failed", "असफल"}));
    case Verdict::informative:
      return fmt::format("<span class=\"informative\">{}</span>", words({"informative", "केवल जानकारी"}));
    case Verdict::not_run:
      return fmt::format("<span class=\"not-run\">{}</span>", words({"not run", "नहीं चलाई गई"}));
  }
  return "";
}

std::string checks(std::span<const RunStep> steps) {
  const bool several = !steps.front().run.empty();
  std::vector<std::pair<Text, bool>> columns = {
      {{"Check", "जाँच"}, false}, {{"Value", "मान"}, true}, {{"Has to be", "होना चाहिए"}, true}, {{"Verdict", "निर्णय"}, false}};
  if (several) columns.insert(columns.begin() + 1, {{"Run", "रन"}, false});
  std::vector<std::vector<std::string>> rows;
  for (const RunStep& run : steps) {
    for (const Check& check : run.step->checks) {
      std::string limit = check.relation + " " + check.limit.text;
      if (check.limit.text.empty()) limit.clear();
      rows.push_back({words(check.name), words({check.value.text, check.value.hi}), escaped(limit),
                      fmt::format("<span class=\"nowrap\">{}</span>", verdict(check.verdict))});
      if (several) rows.back().insert(rows.back().begin() + 1, escaped(run.run));
    }
  }
  return rows.empty() ? "" : markup_table("checks", {"Checks", "जाँचें"}, columns, rows);
}

std::string timings(std::span<const RunStep> steps) {
  const bool several = !steps.front().run.empty();
  bool device = false;
  std::size_t count = 0;
  for (const RunStep& run : steps) {
    for (const Timing& timing : run.step->timings) {
      device = device || timing.device_us.has_value();
      ++count;
    }
  }
  if (count == 0) return "";
  std::vector<std::pair<Text, bool>> columns = {{{"Implementation", "तरीक़ा"}, false}};
  if (several) columns.push_back({{"Run", "रन"}, false});
  columns.push_back({{"Setting", "आकार"}, false});
  columns.push_back({{"Median ms", "माध्यिका ms"}, true});
  columns.push_back({{"p10", ""}, true});
  columns.push_back({{"p90", ""}, true});
  if (device) columns.push_back({{"Device µs", "डिवाइस µs"}, true});
  columns.push_back({{"Calls", "कॉल"}, true});
  columns.push_back({{"Spread", "फैलाव"}, false});
  std::vector<std::vector<std::string>> rows;
  for (const RunStep& run : steps) {
    for (const Timing& timing : run.step->timings) {
      std::vector<std::string> row = {escaped(timing.label)};
      if (several) row.push_back(escaped(run.run));
      row.push_back(fmt::format("<span class=\"nowrap\">{}</span>", escaped(timing.setting)));
      for (const double ms : {timing.median_ms, timing.p10_ms, timing.p90_ms}) row.push_back(milliseconds(ms));
      if (device) row.push_back(timing.device_us ? fmt::format("{:.1f}", *timing.device_us) : "");
      row.push_back(std::to_string(timing.samples_ms.size()));
      row.push_back(spread(timing));
      rows.push_back(std::move(row));
    }
  }
  const std::string number = std::to_string(count);
  return fmt::format(
      "<details class=\"timings\"><summary>{}</summary>\n{}{}</details>\n",
      words({"Raw timings (" + number + " rows)", "कच्चे समय-माप (" + number + " पंक्तियाँ)"}),
      markup_table("raw", {"Raw timings", "कच्चे समय-माप"}, columns, rows),
      paragraph({"Spread: each call is a stroke, relative to the median of its row: half of it at the left edge, equal in the "
                 "middle, double at the right edge. The box spans p10 to p90.",
                 "फैलाव: हर कॉल एक लकीर है, अपनी पंक्ति की माध्यिका के सापेक्ष: बाएँ किनारे पर आधा, बीच में बराबर, दाएँ किनारे पर "
                 "दुगुना। पट्टी p10 से p90 तक है।"},
                "about"));
}

}  // namespace dhyan::report::html

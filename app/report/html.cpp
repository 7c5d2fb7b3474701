// SPDX-License-Identifier: Apache-2.0
#include "report/html.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "report/assets.hpp"
#include "report/html_parts.hpp"

namespace dhyan::report {
namespace {

using namespace html;  // the pieces of this page
using Json = nlohmann::ordered_json;

// Fills {{name}} in; what is filled in is not looked at again.
std::string filled(std::string_view skeleton, const std::map<std::string, std::string, std::less<>>& values) {
  std::string page;
  while (true) {
    const std::size_t from = skeleton.find("{{");
    page += skeleton.substr(0, from);
    if (from == std::string_view::npos) return page;
    const std::size_t to = skeleton.find("}}", from);
    page += values.find(skeleton.substr(from + 2, to - from - 2))->second;
    skeleton.remove_prefix(to + 2);
  }
}

// A stored document may lack any part of the machine.
std::string text_at(const Json& json, const char* pointer) {
  const Json::json_pointer at(pointer);
  if (!json.contains(at)) return "";
  const Json& value = json.at(at);
  return value.is_string() ? value.get<std::string>() : value.is_number() ? value.dump() : "";
}

std::string memory_of(const Document& run) {
  if (!run.machine.contains("devices") || !run.machine["devices"].is_array()) return "";
  std::string all;
  for (const Json& device : run.machine["devices"]) {
    if (!device.is_object() || !device.contains("memory_bytes") || !device["memory_bytes"].is_number()) continue;
    all += fmt::format("{}{} {:.1f} GiB", all.empty() ? "" : ", ", text_at(device, "/type"),
                       device["memory_bytes"].get<double>() / (1 << 30));
  }
  return all;
}

std::string compute_capability_of(const Document& run) {
  if (!run.machine.contains("devices") || !run.machine["devices"].is_array()) return "";
  for (const Json& device : run.machine["devices"]) {
    if (device.is_object() && fmt::format("{}:{}", text_at(device, "/type"), text_at(device, "/index")) == run.device) {
      return text_at(device, "/compute_capability");
    }
  }
  return "";
}

std::string features_of(const Document& run) {
  std::string all;
  if (!run.machine.contains(Json::json_pointer("/cpu/features"))) return all;
  for (const Json& feature : run.machine["cpu"]["features"]) {
    if (feature.is_string()) all += fmt::format("{}{}", all.empty() ? "" : " ", feature.get<std::string>());
  }
  return all;
}

std::string libraries_of(const Document& run) {
  std::string all;
  if (!run.machine.contains("libraries") || !run.machine["libraries"].is_array()) return all;
  for (const Json& library : run.machine["libraries"]) {
    if (!library.is_object() || !library.contains("available") || library["available"] != true) continue;
    all += fmt::format("{}{} {}", all.empty() ? "" : ", ", text_at(library, "/name"), text_at(library, "/version"));
  }
  return all;
}

std::string settings_of(const Document& run) {
  std::string all;
  for (const auto& [name, value] : run.settings) all += fmt::format("{}{}: {}", all.empty() ? "" : ", ", name, value);
  return all;
}

// 2026-11-30T20:15:00Z
std::string made_at(const Document& run) {
  constexpr std::size_t date = 10, time = 11, minutes = 5;
  return run.created.substr(0, date) + " " + run.created.substr(time, minutes) + " UTC";
}

struct Fact {
  Text name;
  std::string (*of)(const Document&);
};
const Fact facts[] = {
    {{"Device", "डिवाइस"}, [](const Document& d) { return d.device + " · " + d.device_name; }},
    {{"Compute capability", ""}, compute_capability_of},
    {{"Processor", "प्रोसेसर"}, [](const Document& d) { return text_at(d.machine, "/cpu/name"); }},
    {{"Threads", "थ्रेड"}, [](const Document& d) { return text_at(d.machine, "/threads"); }},
    {{"Memory", "मेमोरी"}, memory_of},
    {{"Instruction sets", "निर्देश-समूह"}, features_of},
    {{"dhyan", ""}, [](const Document& d) { return d.version; }},
    {{"Compiler", "कम्पाइलर"}, [](const Document& d) { return text_at(d.machine, "/compiler"); }},
    {{"Libraries", "लाइब्रेरियाँ"}, libraries_of},
    {{"Settings", "सेटिंग"}, settings_of},
    {{"Made", "कब बनी"}, made_at},
    {{"Took", "समय लगा"}, [](const Document& d) { return fmt::format("{:.1f} s", d.seconds); }},
};

std::string fact_table(std::span<const Document> documents, std::span<const std::string> names) {
  std::string html =
      fmt::format("<div class=\"scroll\" tabindex=\"0\"><table class=\"facts\">\n<caption><div>{}</div></caption>\n",
                  words({"Machine and run", "मशीन और रन"}));
  if (documents.size() > 1) {
    html += "<thead><tr><td></td>";
    for (const std::string& name : names) html += fmt::format("<th scope=\"col\">{}</th>", escaped(name));
    html += "</tr></thead>\n";
  }
  html += "<tbody>\n";
  for (const Fact& fact : facts) {
    std::string cells;
    bool any = false;  // something that the device's name does not say already
    for (const Document& document : documents) {
      const std::string value = fact.of(document);
      any = any || (!value.empty() && value != document.device_name);
      cells += fmt::format("<td>{}</td>", escaped(value));
    }
    if (any) html += fmt::format("<tr><th scope=\"row\">{}</th>{}</tr>\n", words(fact.name), cells);
  }
  return html + "</tbody></table></div>\n";
}

std::string verdict_line(const Document& document, const std::string& name) {
  const Tally tally = tally_of(document);
  const char* style = tally.failed > 0 ? "bad" : document.complete ? "good" : "part";
  return fmt::format("<p class=\"verdict {}\">{}{}</p>\n", style,
                     name.empty() ? "" : fmt::format("<span class=\"run-name\">{}</span> · ", escaped(name)),
                     words(verdict_of(document)));
}

std::string notice(const Text& what, const Text& why, const std::string& run) {
  return fmt::format("<div class=\"notice\">{}<strong>{}</strong> {}</div>\n",
                     run.empty() ? "" : fmt::format("<span class=\"run-name\">{}</span> · ", escaped(run)), words(what),
                     words(why));
}

std::string summary(std::span<const Document> documents, std::span<const std::string> names) {
  const bool several = documents.size() > 1;
  std::string html = fmt::format("<section aria-labelledby=\"title\">\n<h1 id=\"title\">{}</h1>\n",
                                 words({"Attention, step by step", "अटेंशन, कदम दर कदम"}));
  html += several ? paragraph({"What each way to compute attention gives on these machines, and every claim checked.",
                               "इन मशीनों पर अटेंशन निकालने का हर तरीक़ा क्या देता है, और हर दावे की जाँच।"},
                              "about")
                  : paragraph({"What each way to compute attention gives on this machine, and every claim checked.",
                               "इस मशीन पर अटेंशन निकालने का हर तरीक़ा क्या देता है, और हर दावे की जाँच।"},
                              "about");
  for (std::size_t run = 0; run < documents.size(); ++run) {
    if (!documents[run].complete) {
      html += notice({"Not complete.", "अधूरा।"},
                     {"The run stopped before its end; this page shows what it had until then.",
                      "रन अंत से पहले रुक गया; इस पन्ने पर वही है जो तब तक मिला था।"},
                     several ? names[run] : "");
    }
    html += verdict_line(documents[run], several ? names[run] : "");
  }
  if (!html_has_charts()) {
    html += notice({"No charts.", "चार्ट नहीं हैं।"},
                   {"dhyan was built without Vega, so this page has tables only.",
                    "dhyan को Vega के बिना बनाया गया था, इसलिए इस पन्ने पर केवल तालिकाएँ हैं।"},
                   "");
  } else {
    html += fmt::format("<noscript>{}</noscript>\n",
                        paragraph({"Charts and switches need JavaScript; the numbers are in the tables as well.",
                                   "चार्ट और बटन JavaScript से चलते हैं; संख्याएँ तालिकाओं में भी हैं।"}));
  }
  return html + fact_table(documents, names) + "</section>\n";
}

std::string outcome_notice(const RunStep& run) {
  const Step& step = *run.step;
  switch (step.outcome) {
    case Outcome::done:
      return "";
    case Outcome::not_available:
      return notice({"Not available here.", "यहाँ उपलब्ध नहीं।"}, step.reason, run.run);
    case Outcome::skipped:
      return notice({"Skipped.", "छोड़ा गया।"}, step.reason, run.run);
    case Outcome::interrupted:
      return notice({"Interrupted.", "बीच में रुका।"}, step.reason, run.run);
  }
  return "";
}

std::string block_html(const BlockGroup& group) {
  const Block& block = *group.front().block;
  if (const auto* shown = std::get_if<Table>(&block)) {
    return group.front().run.empty() ? table(*shown) : table(table_side_by_side(group));
  }
  if (std::holds_alternative<Chart>(block)) {
    std::vector<RunChart> charts;
    for (const RunBlock& run : group) charts.push_back({&std::get<Chart>(*run.block), run.run});
    return chart(charts);
  }
  const std::string of =
      group.front().run.empty() ? "" : fmt::format("<p class=\"run-name\">{}</p>\n", escaped(group.front().run));
  if (const auto* shown = std::get_if<Code>(&block)) return of + code(*shown);
  return of + paragraph(std::get<Paragraph>(block).text);
}

// Each note once, with the names of the runs it is of where it is not of all.
std::string notes(std::span<const RunStep> steps) {
  struct Note {
    const Text* text;
    std::vector<std::string> runs;
  };
  std::vector<Note> all;
  for (const RunStep& run : steps) {
    for (const Text& text : run.step->notes) {
      const auto same = std::find_if(all.begin(), all.end(), [&](const Note& note) { return note.text->en == text.en; });
      if (same == all.end()) {
        all.push_back({&text, {run.run}});
      } else {
        same->runs.push_back(run.run);
      }
    }
  }
  std::string html;
  for (const Note& note : all) {
    const std::string of = note.runs.size() < steps.size() ? fmt::format("{}", fmt::join(note.runs, ", ")) : "";
    html += fmt::format("<li>{}{}</li>\n", of.empty() ? "" : fmt::format("<span class=\"run-name\">{}</span> · ", escaped(of)),
                        words(*note.text));
  }
  return html.empty() ? "" : "<ul class=\"notes\">\n" + html + "</ul>\n";
}

Text title_of(std::span<const RunStep> steps) {
  std::vector<Text> titles;
  for (const RunStep& run : steps) titles.push_back(run.step->title);
  return titles_side_by_side(titles);
}

std::string section(std::span<const RunStep> steps) {
  const Step& first = *steps.front().step;
  std::string html = fmt::format(
      "<section id=\"step-{0}\" aria-labelledby=\"step-{0}-title\">\n<h2 id=\"step-{0}-title\"><span "
      "class=\"number\">{0}</span> "
      "{1}</h2>\n",
      first.number, words(title_of(steps)));
  html += paragraph(first.explanation, "about");
  for (const RunStep& run : steps) html += outcome_notice(run);
  for (const BlockGroup& group : blocks_side_by_side(steps)) html += block_html(group);
  return html + notes(steps) + checks(steps) + timings(steps) + "</section>\n";
}

// A mark behind the title of a step: did all checks hold, did it run.
std::string mark(std::span<const RunStep> steps) {
  bool failed = false, passed = false, missing = false;
  for (const RunStep& run : steps) {
    missing = missing || run.step->outcome != Outcome::done;
    for (const Check& check : run.step->checks) {
      failed = failed || check.verdict == Verdict::failed;
      passed = passed || check.verdict == Verdict::passed;
    }
  }
  const auto shown = [](const char* style, const char* sign, const Text& meaning) {
    return fmt::format("<span class=\"{}\"><span aria-hidden=\"true\">{}</span><span class=\"unseen\">{}</span></span>", style,
                       sign, words(meaning));
  };
  if (failed) return shown("failed", "✗", {"a check failed", "एक जाँच असफल"});
  if (missing) return shown("not-run", "–", {"not run, or not whole", "नहीं चला, या पूरा नहीं"});
  if (passed) return shown("passed", "✓", {"all checks passed", "सब जाँचें सफल"});
  return "<span></span>";
}

std::string step_list(std::span<const std::vector<RunStep>> all) {
  std::string html;
  for (const std::vector<RunStep>& steps : all) {
    const Step& step = *steps.front().step;
    html += fmt::format("<li><a href=\"#step-{0}\"><span class=\"number\">{0}</span><span>{1}</span>{2}</a></li>\n",
                        step.number, words(title_of(steps)), mark(steps));
  }
  return html;
}

std::string page_title(std::span<const Document> documents, std::span<const std::string> names) {
  std::string title = "dhyan lab";
  for (std::size_t run = 0; run < documents.size(); ++run) {
    title += (run == 0 ? " · " : ", ") + (documents.size() > 1 ? names[run] : documents[run].device_name);
  }
  return escaped(title);
}

}  // namespace

bool html_has_charts() { return !vega_script.text.empty(); }

std::string html_page(std::span<const Document> documents, std::span<const std::string> names) {
  const std::vector<std::vector<RunStep>> steps = steps_side_by_side(documents, names);
  std::string sections;
  for (const std::vector<RunStep>& step : steps) sections += section(step);
  std::string hashes, scripts;
  if (html_has_charts()) {
    hashes = fmt::format("'{}' ", vega_script.hash);
    scripts = fmt::format("<script>{}</script>\n", vega_script.text);
  }
  hashes += fmt::format("'{}'", page_script.hash);
  scripts += fmt::format("<script>{}</script>", page_script.text);
  const std::string version = documents.empty() ? "" : documents.front().version;
  Text footer = {"Made by dhyan " + version + ". This file needs nothing else and asks nothing of the network.",
                 "dhyan " + version + " से बना। यह फ़ाइल अपने आप में पूरी है और नेटवर्क से कुछ नहीं माँगती।"};
  if (html_has_charts()) {
    footer.en +=
        " Charts are drawn by Vega (BSD licence, in the source of this page); each chart's specification is in it too.";
    footer.hi += " चार्ट Vega बनाता है (BSD लाइसेंस, इस पन्ने के स्रोत में); हर चार्ट का विवरण भी इसी में है।";
  }
  return filled(page_skeleton, {{"script_hashes", hashes},
                                {"style_hash", fmt::format("'{}'", page_style.hash)},
                                {"version", escaped(version)},
                                {"title", page_title(documents, names)},
                                {"style", std::string(page_style.text)},
                                {"skip", words({"Skip to the content", "सीधे सामग्री पर जाएँ"})},
                                {"dark", words({"Dark", "गहरा रंग"})},
                                {"steps_title", words({"Steps", "चरण"})},
                                {"steps", step_list(steps)},
                                {"summary", summary(documents, names)},
                                {"sections", sections},
                                {"footer", paragraph(footer)},
                                {"scripts", scripts}});
}

}  // namespace dhyan::report

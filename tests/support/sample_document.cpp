// SPDX-License-Identifier: Apache-2.0
#include "support/sample_document.hpp"

#include <cmath>

namespace dhyan::testing {
namespace {

using namespace report;  // the document's own types, all through

Check check(std::string key, Text name, Cell value, std::string relation, Cell limit, Verdict verdict) {
  return {std::move(key), std::move(name), std::move(value), std::move(relation), std::move(limit), verdict};
}

Step environment() {
  Step step{.number = 1,
            .title = {"Environment", "परिवेश"},
            .explanation = {"What this machine is. Every number below was measured on it, and on nothing else.",
                            "यह मशीन क्या है। नीचे की हर संख्या इसी पर मापी गई है।"}};
  step.blocks = {
      Paragraph{{"One call computes attention:", "एक ही कॉल अटेंशन निकालती है:"}},
      Code{"dhyan::attention(q, k, v, out);\n// softmax(Q K^T / sqrt(H)) V"},
      Table{.key = "environment",
            .title = {"Environment", "परिवेश"},
            .columns = {{"item", {"Item", "वस्तु"}}, {"value", {"Value", "मान"}}},
            .rows = {{{"Version", {}}, {"0.1.0", {}}},
                     {{"Processor", {}}, {"A processor with a name of more than forty characters, says the machine", {}}},
                     {{"Threads", {}}, {"2", 2.0}}}}};
  step.checks = {check("device_found", {"The device asked for is there", "माँगा गया उपकरण मौजूद है"}, {"1", 1.0}, "≥", {"1", 1.0},
                       Verdict::passed)};
  step.seconds = 0.004;
  return step;
}

Step unavailable() {
  return {.number = 5,
          .title = {"cuDNN fused attention", "cuDNN का फ़्यूज़्ड अटेंशन"},
          .outcome = Outcome::not_available,
          .reason = {"cudnn needs a CUDA device; this build has none", "cudnn को CUDA उपकरण चाहिए; यहाँ कोई नहीं है"},
          .checks = {check("vendor_close", {"Vendor and fused are close", "दोनों के परिणाम पास हैं"}, {}, "≤", {"1.00e-02", 0.01},
                           Verdict::not_run)}};
}

Step weights() {
  Step step{
      .number = 6, .title = {"Causal masking", "कारण-मास्क"}, .explanation = {"A token sees itself and what came before.", ""}};
  Heat heat{.rows = 37, .columns = 37};
  for (int t = 0; t < 37; ++t) {
    for (int s = 0; s < 37; ++s) heat.values.push_back(s > t ? std::nullopt : std::optional(1.0 / (1 + std::abs(t - s))));
  }
  step.blocks = {Chart{.key = "causal_weights",
                       .kind = ChartKind::heat,
                       .title = {"Weights under a causal mask", "मास्क के साथ भार"},
                       .caption = {"Darker is more.", "गहरा अर्थात अधिक।"},
                       .alternative = {"A lower triangle; the diagonal is darkest.", "निचला त्रिभुज; विकर्ण सबसे गहरा।"},
                       .x_title = {"Key", "की"},
                       .y_title = {"Query", "क्वेरी"},
                       .heat = heat}};
  step.checks = {
      check("first_row", {"First row differs", "पहली पंक्ति अलग है"}, {"1.9e+00", 1.9}, ">", {"0.1", 0.1}, Verdict::passed),
      check("last_row", {"Last row is the same", "आख़िरी पंक्ति वही है"}, {"3.00e-05", 3e-5}, "<", {"1.00e-05", 1e-5},
            Verdict::failed)};
  return step;
}

Step timing() {
  Step step{.number = 7,
            .title = {"Attention timing", "अटेंशन का समय"},
            .explanation = {"The naive way writes a matrix of T x S weights to memory and reads it back; the fused one keeps a "
                            "tile of it in registers. The longer the sequence, the more that is worth.",
                            "सीधा तरीका T x S भारों का पूरा आव्यूह स्मृति में रखता है।"}};
  const auto series = [](std::string key, std::string label, std::string colour, Marker marker, std::vector<Point> points) {
    return Series{std::move(key), std::move(label), std::move(colour), marker, std::move(points)};
  };
  step.blocks = {Chart{.key = "latency",
                       .kind = ChartKind::bars,
                       .title = {"Attention latency (ms per call)", "अटेंशन में लगा समय (प्रति कॉल ms)"},
                       .caption = {"Measured on a quiet day.", "शांत दिन में नापा गया।"},
                       .alternative = {"Naive 8.4 ms, fused 1.3 ms.", "सीधा 8.4 ms, फ़्यूज़्ड 1.3 ms।"},
                       .y_title = {"ms", "ms"},
                       .unit = "ms",
                       .better = Better::lower,
                       .series = {series("naive_f32", "naive f32", "#0969da", Marker::circle, {{0, 8.4375, 8.25, 9.5}}),
                                  series("fused_f32", "fused f32", "#0969da", Marker::square, {{0, 1.3125, 1.25, 1.5}})}},
                 Table{.key = "sweep",
                       .title = {"Sequence-length sweep", "अनुक्रम की लंबाई के साथ"},
                       .columns = {{"seq_len", {"Seq len", "लंबाई"}, true},
                                   {"naive_f32_ms", {"naive f32 (ms)", "naive f32 (ms)"}, true},
                                   {"fused_f32_ms", {"fused f32 (ms)", "fused f32 (ms)"}, true}},
                       .rows = {{{"64", 64.0}, {"0.42", 0.4219}, {"0.11", 0.1094}},
                                {{"256", 256.0}, {"6.10", 6.1016}, {"1.02", 1.0195}},
                                {{"1024", 1024.0}, {"98.40", 98.3984}, {"14.20", 14.2031}}}},
                 Chart{.key = "sweep_lines",
                       .kind = ChartKind::lines,
                       .title = {"Attention latency vs sequence length", "अनुक्रम की लंबाई और समय"},
                       .alternative = {"Both rise with T, naive faster.", "दोनों T के साथ बढ़ते हैं।"},
                       .x_title = {"Sequence length T", "अनुक्रम की लंबाई T"},
                       .y_title = {"Median ms per call", "प्रति कॉल माध्य ms"},
                       .unit = "ms",
                       .better = Better::lower,
                       .logarithmic = true,
                       .baseline = "naive_f32",
                       .series = {series("naive_f32", "naive f32", "#d1242f", Marker::circle,
                                         {{64, 0.4219, 0.4, 0.5}, {256, 6.1016, 6, 7}, {1024, 98.3984, 97, 105}}),
                                  series("fused_f32", "fused f32", "#0969da", Marker::square,
                                         {{64, 0.1094, {}, {}}, {256, 1.0195, {}, {}}, {1024, 14.2031, {}, {}}})}}};
  step.notes = {{"At T = 64 the two could not be ranked: their spreads overlap.", "T = 64 पर दोनों का क्रम तय नहीं हो सका।"}};
  step.checks = {check("fused_not_slower", {"Fused is not slower at T = 1024", "T = 1024 पर फ़्यूज़्ड धीमा नहीं"}, {"14.20", 14.2031},
                       "≤", {"98.40", 98.3984}, Verdict::informative)};
  step.timings = {{"naive_f32", "naive f32", "T=1024", 98.3984, 97, 105, {}, {97, 98.3984, 105}},
                  {"fused_f32", "fused f32", "T=1024", 14.2031, 14, 15, 13000.5, {14, 14.2031, 15}}};
  step.seconds = 2.5;
  return step;
}

}  // namespace

Document sample_document() {
  return {
      .created = "2026-11-30T20:15:00Z",
      .version = "0.1.0",
      .device = "cpu",
      .device_name = "A processor <script>alert(1)</script> & \"more\"",
      .machine = nlohmann::ordered_json::parse(R"({"version": "0.1.0", "cpu": {"name": "A processor", "features": ["avx2"]}})"),
      .settings = {{"device", "auto"}, {"repeats", "20"}},
      .steps = {environment(),
                unavailable(),
                weights(),
                timing(),
                {.number = 8,
                 .title = {"Multi-head attention variants", "बहु-शीर्ष अटेंशन के रूप"},
                 .outcome = Outcome::skipped,
                 .reason = {"Own tensors were given; this step needs its own.", "अपने टेंसर दिए गए थे।"}},
                {.number = 9, .title = {"Module", "मॉड्यूल"}, .outcome = Outcome::interrupted, .reason = {"Ctrl-C", ""}}},
      .complete = true,
      .seconds = 2.75};
}

const std::vector<std::string>& hostile_texts() {
  static const std::vector<std::string> texts = {
      "",
      "plain",
      "a, b\r\n\"c\"\t",
      "</script><script>alert(1)</script><!--",
      "&amp; <b> 'x' \"y\" `z` ${1} {{2}}",
      "\x1b[31mred\x1b]0;title\x07\x08\x7f\x01",
      "\xc2\x9b[31m and \xe2\x80\xae backwards \xe2\x80\x8b\xef\xbb\xbf",
      std::string("nul\0inside", 10),
      "ध्यान हिन्दी में",
      "日本語の名前 ｆｕｌｌ　ｗｉｄｔｈ",
      "e\xcc\x81\xcc\x82\xcc\x83 \xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb \xf0\x9f\x87\xae\xf0\x9f\x87\xb3",
      "../../etc/passwd",
      "=1+1",
      std::string(300, 'w'),
      "u2028 \xe2\x80\xa8 and u2029 \xe2\x80\xa9",
      "\xef\xbf\xbf\xf4\x8f\xbf\xbf"};
  return texts;
}

namespace {

std::string any_text(Random& random) {
  const auto& texts = hostile_texts();
  return texts[static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(texts.size()) - 1))];
}

Text any_words(Random& random) { return {any_text(random), any_text(random)}; }
bool coin(Random& random) { return random.bits() % 2 == 0; }

template <class Enum>
Enum any_of(Random& random, Enum last) {
  return static_cast<Enum>(random.integer(0, static_cast<std::int64_t>(last)));
}

// Of every size a double has, whole numbers and both zeros among them.
double any_number(Random& random) {
  switch (random.integer(0, 4)) {
    case 0:
      return static_cast<double>(random.integer(-1000, 1000));
    case 1:
      return coin(random) ? 0.0 : -0.0;
    case 2:
      return coin(random) ? 5e-324 : 1.7976931348623157e308;
    case 3:
      return std::ldexp(random.normal(), static_cast<int>(random.integer(-1070, 1000)));
    default:
      return random.uniform();
  }
}

std::optional<double> maybe(Random& random) { return coin(random) ? std::nullopt : std::optional(any_number(random)); }
Cell any_cell(Random& random) { return {any_text(random), maybe(random), any_text(random)}; }

std::string key(std::string_view of, std::size_t i) { return std::string(of).append("-").append(std::to_string(i)); }

Table any_table(Random& random, std::size_t number) {
  Table table{.key = key("T", number), .title = any_words(random)};
  for (auto n = random.integer(1, 5); n > 0; --n) {
    table.columns.push_back({key("c", table.columns.size()), any_words(random), coin(random)});
  }
  table.rows.resize(static_cast<std::size_t>(random.integer(0, 5)));
  for (auto& row : table.rows) {
    for (std::size_t i = 0; i < table.columns.size(); ++i) row.push_back(any_cell(random));
  }
  return table;
}

Chart any_chart(Random& random, std::size_t number) {
  Chart chart{.key = key("C", number),
              .kind = any_of(random, ChartKind::heat),
              .title = any_words(random),
              .caption = any_words(random),
              .alternative = any_words(random),
              .x_title = any_words(random),
              .y_title = any_words(random),
              .unit = any_text(random),
              .better = any_of(random, Better::higher),
              .logarithmic = coin(random)};
  if (chart.kind == ChartKind::heat) {
    chart.heat.rows = random.integer(1, 40);
    chart.heat.columns = random.integer(1, 40);
    chart.heat.values.resize(static_cast<std::size_t>(chart.heat.rows * chart.heat.columns));
    for (auto& value : chart.heat.values) {
      if (!coin(random)) value = std::abs(any_number(random));
    }
    return chart;
  }
  for (auto n = random.integer(0, 5); n > 0; --n) {
    Series series{.key = key("s", chart.series.size()),
                  .label = any_text(random),
                  .colour = "#0969dA",
                  .marker = any_of(random, Marker::triangle)};
    const auto points = chart.kind == ChartKind::bars ? 1 : random.integer(0, 9);
    for (double x = random.normal(); static_cast<std::int64_t>(series.points.size()) < points; x += 0.5 + random.uniform()) {
      series.points.push_back({x, any_number(random), maybe(random), maybe(random)});
    }
    chart.series.push_back(std::move(series));
  }
  if (!chart.series.empty() && coin(random)) chart.baseline = chart.series.back().key;
  return chart;
}

}  // namespace

Document random_document(Random& random) {
  Document document{.created = "1999-12-31T23:59:59Z",
                    .version = any_text(random),
                    .device = any_text(random),
                    .device_name = any_text(random),
                    .machine = {{any_text(random), {any_text(random), any_number(random), nullptr, {{"deep", true}}}}},
                    .settings = {{"a", any_text(random)}, {any_text(random) + "b", any_text(random)}},
                    .complete = coin(random),
                    .seconds = any_number(random)};
  std::size_t blocks = 0, checks = 0;
  for (auto n = random.integer(0, 5); n > 0; --n) {
    Step step{.number = static_cast<int>(20 - n),
              .title = any_words(random),
              .explanation = any_words(random),
              .outcome = any_of(random, Outcome::interrupted),
              .reason = any_words(random),
              .seconds = any_number(random)};
    for (auto m = random.integer(0, 4); m > 0; --m) {
      switch (random.integer(0, 3)) {
        case 0:
          step.blocks.emplace_back(Paragraph{any_words(random)});
          break;
        case 1:
          step.blocks.emplace_back(Code{any_text(random)});
          break;
        case 2:
          step.blocks.emplace_back(any_table(random, blocks++));
          break;
        default:
          step.blocks.emplace_back(any_chart(random, blocks++));
      }
    }
    for (auto m = random.integer(0, 3); m > 0; --m) step.notes.push_back(any_words(random));
    constexpr const char* relations[] = {"≤", "<", "≥", ">", "="};
    for (auto m = random.integer(0, 3); m > 0; --m) {
      step.checks.push_back({key("k", checks++), any_words(random), any_cell(random), relations[random.integer(0, 4)],
                             any_cell(random), any_of(random, Verdict::not_run)});
    }
    for (auto m = random.integer(0, 3); m > 0; --m) {
      step.timings.push_back({any_text(random),
                              any_text(random),
                              any_text(random),
                              any_number(random),
                              any_number(random),
                              any_number(random),
                              maybe(random),
                              {any_number(random), any_number(random)}});
    }
    document.steps.push_back(std::move(step));
  }
  return document;
}

}  // namespace dhyan::testing

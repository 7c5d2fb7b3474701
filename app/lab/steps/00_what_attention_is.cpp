// SPDX-License-Identifier: Apache-2.0
#include "lab/show.hpp"
#include "lab/steps.hpp"

namespace dhyan::lab {
namespace {

report::Table stages() {
  report::Table table{.key = "00_stages",
                      .title = {"The four stages", "चार चरण"},
                      .columns = {{"stage", {"Stage", "चरण"}},
                                  {"formula", {"Formula", "सूत्र"}},
                                  {"shape", {"Shape", "आकार"}},
                                  {"meaning", {"In words", "शब्दों में"}}},
                      .rows = {}};
  struct Stage {
    report::Text name;
    const char* formula;
    const char* shape;
    report::Text meaning;
  };
  const Stage rows[] = {{{"1 scores", "1 अंक (scores)"},
                         "Q · Kᵀ",
                         "(B, N, T, S)",
                         {"how well each query fits each key", "हर query हर key से कितना मेल खाती है"}},
                        {{"2 scale + softmax", ""},
                         "P = softmax(scores / √H)",
                         "(B, N, T, S)",
                         {"weights of a query: positive, their sum is 1", "एक query के भार: धनात्मक, योग 1"}},
                        {{"3 attend", "3 औसत (attend)"},
                         "P · V",
                         "(B, T, N, H)",
                         {"values averaged by these weights", "इन भारों से values का औसत"}},
                        {{"4 output", "4 आउटपुट"},
                         "out",
                         "(B, T, N, H)",
                         {"shaped like Q, ready for the next layer", "आकार Q जैसा, अगली परत के लिए तैयार"}}};
  for (const Stage& row : rows) table.rows.push_back({word(row.name), word(row.formula), word(row.shape), word(row.meaning)});
  return table;
}

report::Table letters() {
  report::Table table{.key = "00_letters",
                      .title = {"The letters", "अक्षर"},
                      .columns = {{"letter", {"Letter", "अक्षर"}},
                                  {"meaning", {"Meaning", "अर्थ"}},
                                  {"default", {"Default", "सामान्य मान"}, true}},
                      .rows = {}};
  const std::tuple<const char*, report::Text, std::int64_t> rows[] = {
      {"B", {"batch: independent examples", "बैच: स्वतंत्र उदाहरण"}, batch},
      {"T", {"query length: positions that ask", "query की लंबाई: पूछने वाले स्थान"}, sequence},
      {"S", {"key length: positions that are asked", "key की लंबाई: जिनसे पूछा जाता है, वे स्थान"}, sequence},
      {"N", {"query heads: attentions side by side", "query heads: साथ-साथ चलने वाले अटेंशन"}, heads},
      {"K", {"key and value heads; N is a multiple of it", "key और value heads; N इसका गुणज है"}, heads},
      {"H", {"head dimension: numbers in one query, key or value", "head का आयाम: एक query, key या value में संख्याएँ"}, head_dim}};
  for (const auto& [letter, meaning, size] : rows) table.rows.push_back({word(letter), word(meaning), count(size)});
  return table;
}

void run(Lab&, report::Step& step) {
  step.blocks.emplace_back(report::Code{"Attention(Q, K, V) = softmax(Q Kᵀ / √H) V"});
  step.blocks.emplace_back(stages());
  step.blocks.emplace_back(letters());
}

}  // namespace

StepEntry what_attention_is() {
  return {
      0,
      {"What attention is", "अटेंशन क्या है"},
      {"Every position of a sequence asks a question (its query) and is offered an answer by every position (a key that says "
       "what it is about, a value that holds what it has to say). Attention weighs the answers by how well each key fits the "
       "query and returns their average. The steps below do this in ever better ways and check that nothing but the speed "
       "changes.",
       "किसी अनुक्रम (sequence) का हर स्थान एक प्रश्न पूछता है (query), और हर स्थान उसे एक उत्तर देता है: key बताती है कि उत्तर किस बारे में है, "
       "और value में उत्तर स्वयं होता है। अटेंशन हर उत्तर को इस आधार पर भार देता है कि उसकी key प्रश्न से कितनी मेल खाती है, और फिर उनका भारित "
       "औसत "
       "लौटाता है। आगे के चरण यही काम लगातार बेहतर तरीक़ों से करते हैं और जाँचते हैं कि गति के सिवा कुछ न बदले।"},
      {},
      run};
}

}  // namespace dhyan::lab

// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <zlib.h>

#include "arguments.hpp"
#include "lab/show.hpp"
#include "lab/steps.hpp"

namespace dhyan::lab {
namespace {

std::string checksum(const app::Array& array) {
  return fmt::format("{:08x}", crc32_z(0, reinterpret_cast<const Bytef*>(array.data.data()), array.data.size()));
}

void run(Lab& lab, report::Step& step) {
  const Inputs& inputs = lab.inputs();
  const std::string device = app::name_of(lab.settings().device);
  step.title = {"Attention inputs on " + device, device + " पर अटेंशन के इनपुट"};
  report::Table table{.key = "02_inputs",
                      .title = step.title,
                      .columns = {{"array", {"Array", "सरणी"}},
                                  {"shape", {"Shape", "आकार"}},
                                  {"dtype", {"Dtype", "प्रकार"}},
                                  {"layout", {"Layout", "विन्यास"}},
                                  {"bytes", {"Bytes", "बाइट"}, true},
                                  {"crc32", {"CRC-32", ""}}},
                      .rows = {}};
  const std::tuple<const char*, const char*, const app::Array&> arrays[] = {{"Q (query)", "(B, T, N, H)", inputs.query},
                                                                            {"K (key)", "(B, S, K, H)", inputs.key},
                                                                            {"V (value)", "(B, S, K, H)", inputs.value}};
  for (const auto& [name, layout, array] : arrays) {
    table.rows.push_back({word(name), word(shape_text(array.shape)), word(std::string(dtype_name(array.element))), word(layout),
                          bytes(static_cast<double>(array.data.size())), word(checksum(array))});
  }
  step.blocks.emplace_back(std::move(table));
  const auto &q = inputs.query.shape, &k = inputs.key.shape, &v = inputs.value.shape;
  const bool fit = q.size() == 4 && k.size() == 4 && v.size() == 4 && q[0] == k[0] && k[0] == v[0] && k[1] == v[1] &&
                   k[2] == v[2] && q[3] == k[3] && k[2] > 0 && q[2] % k[2] == 0;
  const bool standard = q == app::Shape{batch, sequence, heads, head_dim} && q == k && k == v;
  add_check(step, "02_shapes", {"The three shapes fit together", "तीनों आकार एक-दूसरे से मेल खाते हैं"},
            word(q == k && k == v ? fmt::format("3 × {}", shape_text(q))
                                  : fmt::format("{} {} {}", shape_text(q), shape_text(k), shape_text(v))),
            "=", word(lab.settings().given ? "(B, T, N, H) (B, S, K, H) (B, S, K, H)" : "3 × (4, 128, 8, 64)"),
            lab.settings().given ? fit : standard);
}

}  // namespace

StepEntry attention_inputs() {
  return {
      2,
      {"Attention inputs", "अटेंशन के इनपुट"},
      {"Query, key and value are drawn from the standard normal distribution, bit for bit as jax.random.normal draws them from "
       "seed 0 split in three, so that every machine and the original codelab see the same numbers. The checksum proves it. "
       "Rows in bf16 use the same arrays, rounded to nearest even.",
       "Query, key और value मानक सामान्य वितरण (standard normal) से लिए गए हैं, बिट-दर-बिट वैसे ही जैसे jax.random.normal बीज (seed) 0 "
       "को तीन भागों में "
       "बाँटकर देता है; इसलिए हर मशीन और मूल codelab को एक ही संख्याएँ मिलती हैं। चेकसम इसका प्रमाण है। bf16 वाली पंक्तियाँ इन्हीं सरणियों को "
       "निकटतम bf16 मान तक "
       "पूर्णांकित करके लेती हैं (बराबर दूरी पर सम मान)।"},
      {},
      run};
}

}  // namespace dhyan::lab

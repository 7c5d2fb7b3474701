// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "lab/candidates.hpp"
#include "lab/encoder_head.hpp"

namespace dhyan::lab {

report::Chart encoder_heat_map(Causal causal, Device device) {
  constexpr auto tokens = static_cast<std::int64_t>(encoder_tokens), width = static_cast<std::int64_t>(encoder_width);
  app::Call call;
  call.query = app::Array(app::Element::f32, {1, tokens, 1, width});
  call.key = app::Array(app::Element::f32, {1, tokens, 1, width});
  // Values that are the unit matrix make the output the weights themselves.
  call.value = app::Array(app::Element::f32, {1, tokens, 1, tokens});
  std::ranges::copy(encoder_query, call.query.as<float>().begin());
  std::ranges::copy(encoder_key, call.key.as<float>().begin());
  std::ranges::fill(call.value.as<float>(), 0.0F);
  for (std::size_t i = 0; i < encoder_tokens; ++i) call.value.as<float>()[i * encoder_tokens + i] = 1;
  call.causal = causal;
  place(call, device);
  const app::Outputs outputs = attend(call, Implementation::naive);
  const std::span<const float> weights = outputs.out.as<float>();

  report::Chart chart;
  chart.kind = report::ChartKind::heat;
  chart.heat = {.rows = tokens, .columns = tokens, .values = {}};
  for (std::size_t t = 0; t < encoder_tokens; ++t) {
    for (std::size_t s = 0; s < encoder_tokens; ++s) {
      const bool hidden = causal != Causal::off && s > t;
      chart.heat.values.push_back(hidden ? std::nullopt : std::optional<double>(weights[t * encoder_tokens + s]));
    }
  }
  const float largest = *std::ranges::max_element(weights);
  chart.x_title = {"Key position s", "key का स्थान s"};
  chart.y_title = {"Query position t", "query का स्थान t"};
  if (causal == Causal::off) {
    chart.key = "03_weights";
    chart.title = {"Attention weights of a sentence encoder (layer 5, head 0)", "एक वाक्य-एनकोडर के अटेंशन-भार (परत 5, head 0)"};
    chart.alternative = {fmt::format("A square of 37 queries by 37 keys. The largest weight is {:.2f}.", largest),
                         fmt::format("37 query और 37 key का वर्ग। सबसे बड़ा भार {:.2f} है।", largest)};
  } else {
    chart.key = "06_weights";
    chart.title = {"The encoder's weights under a causal mask", "वही भार, causal मास्क के साथ"};
    chart.alternative = {
        fmt::format("A triangle: no query has a weight on a later key. The largest weight is {:.2f}.", largest),
        fmt::format("एक त्रिभुज: किसी query का भार बाद की key पर नहीं है। सबसे बड़ा भार {:.2f} है।", largest)};
  }
  chart.caption = {"all-MiniLM-L6-v2, a text of 37 tokens; each row sums to 1.",
                   "all-MiniLM-L6-v2, 37 टोकन का पाठ; हर पंक्ति का योग 1 है।"};
  return chart;
}

}  // namespace dhyan::lab

// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "lab/show.hpp"
#include "lab/steps.hpp"

namespace dhyan::lab {
namespace {

constexpr std::int64_t examples = 2, tokens = 64;

struct Pattern {
  const char* key;
  const char* name;
  std::int64_t key_heads;
  std::size_t key_draw, value_draw;  // of the five keys
};
constexpr Pattern patterns[] = {{"mha", "MHA", 8, 1, 2}, {"gqa", "GQA", 2, 1, 2}, {"mqa", "MQA", 1, 3, 4}};

// Every key head `times` times in a row, so that heads need no longer be shared.
app::Array repeat_heads(const app::Array& array, std::int64_t times) {
  const auto& s = array.shape;
  app::Array result(array.element, {s[0], s[1], s[2] * times, s[3]});
  const std::span<const float> from = array.as<float>();
  const std::span<float> to = result.as<float>();
  const auto width = static_cast<std::size_t>(s[3]);
  for (std::size_t head = 0; head < to.size() / width; ++head) {
    std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(head / static_cast<std::size_t>(times) * width), width,
                to.begin() + static_cast<std::ptrdiff_t>(head * width));
  }
  return result;
}

void run(Lab& lab, report::Step& step) {
  constexpr std::uint64_t seed = 42;
  constexpr double most = 1e-5;
  const std::vector<RandomKey> keys = split(random_key(seed), 5);
  const app::Shape expected = {examples, tokens, heads, head_dim};
  report::Table table{.key = "08_variants",
                      .title = {"Multi-head attention variants", "multi-head अटेंशन के रूप"},
                      .columns = {{"pattern", {"Pattern", "रूप"}},
                                  {"q_shape", {"Q shape", "Q का आकार"}},
                                  {"k_shape", {"K shape", "K का आकार"}},
                                  {"v_shape", {"V shape", "V का आकार"}},
                                  {"output_shape", {"Output shape", "आउटपुट का आकार"}},
                                  {"kv_bytes_per_token", {"KV bytes per token (f32)", "प्रति टोकन KV बाइट"}, true}},
                      .rows = {}};
  for (const Pattern& pattern : patterns) {
    lab.pause_point();
    const app::Shape shape = {examples, tokens, pattern.key_heads, head_dim};
    app::Call call;
    call.query = normal_array(keys[0], app::Element::f32, expected);
    call.key = normal_array(keys[pattern.key_draw], app::Element::f32, shape);
    call.value = normal_array(keys[pattern.value_draw], app::Element::f32, shape);
    place(call, lab.settings().device);
    const app::Outputs outputs = attend(call, Implementation::automatic);
    const std::int64_t kv_bytes = 2 * pattern.key_heads * head_dim * 4;
    table.rows.push_back({word(pattern.name), word(shape_text(call.query.shape)), word(shape_text(call.key.shape)),
                          word(shape_text(call.value.shape)), word(shape_text(outputs.out.shape)), count(kv_bytes)});
    add_check(step, fmt::format("08_{}_shape", pattern.key),
              {fmt::format("{} keeps the shape of Q", pattern.name), fmt::format("{} में Q का आकार बना रहता है", pattern.name)},
              word(shape_text(outputs.out.shape)), "=", word(shape_text(expected)), outputs.out.shape == expected);
    if (pattern.key_heads == heads) continue;
    app::Call repeated;
    repeated.query = std::move(call.query);
    repeated.key = repeat_heads(call.key, heads / pattern.key_heads);
    repeated.value = repeat_heads(call.value, heads / pattern.key_heads);
    place(repeated, lab.settings().device);
    const Closeness close = closeness(outputs.out, attend(repeated, Implementation::automatic).out, most, 0);
    add_check(step, fmt::format("08_{}_repeated", pattern.key),
              {fmt::format("{} equals MHA on repeated key and value heads", pattern.name),
               fmt::format("{} वही देता है जो दोहराए गए key और value heads पर MHA", pattern.name)},
              difference(close.largest), "≤", {"1e-5", most}, close.close);
  }
  step.blocks.emplace_back(std::move(table));
}

}  // namespace

StepEntry head_variants() {
  return {
      8,
      {"Multi-head attention variants — all should produce the same output shape",
       "multi-head अटेंशन के रूप — सभी का आउटपुट एक ही आकार का होना चाहिए"},
      {"Several query heads may share one head of keys and values: in groups (GQA) or all of them (MQA). The output keeps its "
       "shape, but a model that generates text keeps K and V of every earlier token, and these shrink by as much as heads are "
       "shared.",
       "कई query heads एक ही key-value head साझा कर सकते हैं: समूहों में (GQA) या सब के सब (MQA)। आउटपुट का आकार वही रहता है, पर पाठ "
       "लिखने वाला मॉडल हर पिछले "
       "टोकन के K और V सँभालकर रखता है, और साझेदारी जितनी अधिक, यह भंडार उतना ही छोटा।"},
      {"It draws queries, keys and values with several numbers of heads; the tensors given have one.",
       "यह चरण अलग-अलग संख्या के heads वाले query, key और value बनाता है; दिए गए टेंसरों में उनकी एक ही संख्या है।"},
      run};
}

}  // namespace dhyan::lab

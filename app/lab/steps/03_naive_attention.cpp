// SPDX-License-Identifier: Apache-2.0
#include "lab/encoder_head.hpp"
#include "lab/show.hpp"
#include "lab/steps.hpp"

namespace dhyan::lab {
namespace {

void run(Lab& lab, report::Step& step) {
  const app::Call call = lab.call(lab.inputs(), app::Element::f32);
  lab.pause_point();
  const app::Outputs outputs = attend(call, Implementation::naive);
  const app::Geometry g = geometry_of(call);
  const double weights = 4.0 * static_cast<double>(g.batch) * static_cast<double>(g.query_heads) *
                         static_cast<double>(g.query_length) * static_cast<double>(g.key_length);
  const std::string shape = shape_text(outputs.out.shape), dtype(dtype_name(outputs.out.element));
  step.blocks.emplace_back(report::Table{.key = "03_naive",
                                         .title = {"Naive attention", "सरल (naive) अटेंशन"},
                                         .columns = {{"shape", {"Output shape", "आउटपुट का आकार"}},
                                                     {"dtype", {"Output dtype", "आउटपुट का प्रकार"}},
                                                     {"weights_bytes", {"Weights matrix", "भारों का मैट्रिक्स"}, true}},
                                         .rows = {{word(shape), word(dtype), bytes(weights)}}});
  step.blocks.emplace_back(encoder_heat_map(Causal::off, lab.settings().device));
  app::Shape expected = call.query.shape;
  expected.back() = call.value.shape.back();
  add_check(step, "03_shape", {"The output is shaped like Q", "आउटपुट का आकार Q जैसा है"}, word(shape), "=",
            word(shape_text(expected)), outputs.out.shape == expected);
  add_check(step, "03_dtype", {"The output has the dtype of Q", "आउटपुट का प्रकार Q जैसा है"}, word(dtype), "=",
            word(std::string(dtype_name(call.query.element))), outputs.out.element == call.query.element);
}

}  // namespace

StepEntry naive_attention() {
  return {
      3,
      {"Naive attention", "सरल (naive) अटेंशन"},
      {"The formula as one writes it by hand: three steps, and between them the whole matrix of weights lies in memory. That "
       "matrix has T · S entries for every head, so twice the length takes four times the memory. The picture shows such "
       "weights "
       "in one head of a real sentence encoder: each row is a query, and the more a key stands out, the more it counts.",
       "सूत्र जैसा हाथ से लिखा जाता है: तीन चरण, और उनके बीच भारों (weights) का पूरा मैट्रिक्स मेमोरी में रहता है। हर head के लिए उसमें T · S "
       "प्रविष्टियाँ "
       "होती हैं, यानी दुगुनी लंबाई पर चौगुनी मेमोरी लगती है। चित्र में एक वास्तविक वाक्य-एनकोडर के एक head के ऐसे ही भार हैं: हर पंक्ति एक query "
       "है, और "
       "जो key जितनी उभरी हुई दिखती है, उसका महत्व उतना ही अधिक है।"},
      {},
      run};
}

}  // namespace dhyan::lab

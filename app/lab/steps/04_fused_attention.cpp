// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>

#include "arguments.hpp"
#include "lab/show.hpp"
#include "lab/steps.hpp"
#include "measure/oracle.hpp"

namespace dhyan::lab {
namespace {

// How far a result is from float64, by the bound that its type, sizes and inputs imply.
app::Difference against_float64(const app::Outputs& outputs, const app::Oracle& oracle, const app::LimitTable& limits) {
  for (const app::Expected& expected : oracle.expected) {
    if (expected.name == "out") return compare(outputs.out, expected, limits.of("out"));
  }
  throw std::logic_error("the float64 oracle gave no out");
}

// A NaN or an infinity where none belongs has no share of a bound.
report::Cell share(const app::Difference& difference) { return fixed(difference.misplaced ? NAN : difference.share); }

void run(Lab& lab, report::Step& step) {
  constexpr double atol = 1e-3, rtol = 1e-5;
  const app::Call call = lab.call(lab.inputs(), app::Element::f32);
  const app::Geometry geometry = geometry_of(call);
  lab.pause_point();
  const app::Outputs naive = attend(call, Implementation::naive), chosen = attend(call, Implementation::automatic);
  lab.pause_point();
  const app::Oracle oracle = forward_oracle(call, geometry);
  const app::LimitTable limits(call, geometry);
  const app::Difference naive_error = against_float64(naive, oracle, limits), error = against_float64(chosen, oracle, limits);
  const Closeness close = closeness(naive.out, chosen.out, atol, rtol);
  const Plan plan = Plan::forward(forward_problem(call, chosen, Implementation::automatic));

  step.blocks.emplace_back(report::Table{
      .key = "04_fused",
      .title = {"Fused vs naive", "fused बनाम naive"},
      .columns = {{"implementation", {"Implementation", "तरीक़ा"}},
                  {"shape", {"Output shape", "आउटपुट का आकार"}},
                  {"dtype", {"Output dtype", "आउटपुट का प्रकार"}},
                  {"max_difference", {"Max abs naive − fused", "अधिकतम |naive − fused|"}, true},
                  {"close", {"Outputs close", "आउटपुट लगभग बराबर"}},
                  {"float64_error", {"Max abs error against float64", "float64 से अधिकतम अंतर"}, true}},
      .rows = {{word(fmt::format("auto: {}", app::name_of(plan.implementation()))), word(shape_text(chosen.out.shape)),
                word(std::string(dtype_name(chosen.out.element))), difference(close.largest),
                word(close.close ? report::Text{"yes", "हाँ"} : report::Text{"no", "नहीं"}),
                difference(error.misplaced ? NAN : error.max_abs)}}});
  step.blocks.emplace_back(report::Paragraph{{"What auto chose, and why:", "auto ने क्या चुना, और क्यों:"}});
  step.blocks.emplace_back(report::Code{plan.describe()});
  step.notes.push_back(
      {fmt::format("Compared with float64: {}.", oracle.extent), fmt::format("float64 से तुलना की सीमा: {}।", oracle.extent)});
  // For tensors of any size only the derived bounds are a fair limit.
  add_check(step, "04_close",
            {"Naive and fused are close (atol 1e-3, rtol 1e-5)", "naive और fused लगभग बराबर हैं (atol 1e-3, rtol 1e-5)"},
            difference(close.largest), "≤", {"1e-3 + 1e-5·|b|", atol}, close.close,
            lab.settings().given ? Gate::informs : Gate::fails_the_lab);
  for (const auto& [key, name, got] : {std::tuple{"naive", "naive", &naive_error}, {"fused", "auto", &error}}) {
    add_check(step, fmt::format("04_{}_bound", key),
              {fmt::format("{} against float64: share of the error bound", name),
               fmt::format("float64 की तुलना में {}: त्रुटि-सीमा का कितना भाग लगा", name)},
              share(*got), "≤", {"1", 1.0}, got->ok());
    // The inputs are known, so much more can be asked: f32 keeps at least 21 bits.
    constexpr double most = 0x1p-20;
    const double relative = got->misplaced ? NAN : got->relative;
    add_check(step, fmt::format("04_{}_error", key),
              {fmt::format("{} against float64: ‖Δ‖ / ‖out‖", name), fmt::format("float64 की तुलना में {}: ‖Δ‖ / ‖out‖", name)},
              difference(relative), "≤", difference(most), relative <= most,
              lab.settings().given ? Gate::informs : Gate::fails_the_lab);
  }
}

}  // namespace

StepEntry fused_attention() {
  return {
      4,
      {"Fused vs naive", "fused बनाम naive"},
      {"A fused kernel goes over the keys tile by tile and keeps only a running maximum and sum for each query, so the matrix "
       "of weights never exists in memory. The result is the same up to rounding. Besides the codelab's tolerance both are "
       "held "
       "to a far tighter bound, derived from the number type, the sizes and the inputs, against float64.",
       "fused कर्नल keys को टुकड़ा-दर-टुकड़ा (tile) देखता है और हर query के लिए केवल अब तक का अधिकतम और योग याद रखता है; भारों का मैट्रिक्स "
       "मेमोरी में बनता ही "
       "नहीं। पूर्णांकन को छोड़ दें तो परिणाम वही रहता है। codelab की छूट के अलावा दोनों को float64 की तुलना में कहीं कड़ी सीमा पर भी परखा "
       "जाता "
       "है, जो संख्या-प्रकार, "
       "आकारों और इनपुट से निकाली गई है।"},
      {},
      run};
}

}  // namespace dhyan::lab

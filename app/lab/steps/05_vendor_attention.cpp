// SPDX-License-Identifier: Apache-2.0
#include "lab/show.hpp"
#include "lab/steps.hpp"
#include "measure/limits.hpp"

namespace dhyan::lab {
namespace {

void run(Lab& lab, report::Step& step) {
  constexpr double atol = 1e-2, rtol = 1e-2;
  const app::Call call = lab.call(lab.inputs(), app::Element::bf16);
  if (const auto reason = refusal(vendor_bf16, call, lab.settings().device)) {
    step.outcome = report::Outcome::not_available;
    step.reason = {*reason, ""};
    return;
  }
  const app::Outputs vendor = attend(call, Implementation::cudnn), fused = attend(call, Implementation::fused);
  const Closeness close = closeness(vendor.out, fused.out, atol, rtol);
  step.blocks.emplace_back(report::Table{
      .key = "05_vendor",
      .title = {"cuDNN against fused, bf16", "bf16 में cuDNN बनाम fused"},
      .columns = {{"shape", {"Output shape", "आउटपुट का आकार"}},
                  {"dtype", {"Output dtype", "आउटपुट का प्रकार"}},
                  {"max_difference", {"Max abs difference", "अधिकतम अंतर"}, true},
                  {"close", {"Outputs close", "आउटपुट लगभग बराबर"}}},
      .rows = {{word(shape_text(vendor.out.shape)), word(std::string(dtype_name(vendor.out.element))),
                difference(close.largest), word(close.close ? report::Text{"yes", "हाँ"} : report::Text{"no", "नहीं"})}}});
  add_check(step, "05_close",
            {"cuDNN and fused are close (rtol 1e-2, atol 1e-2)", "cuDNN और fused लगभग बराबर हैं (rtol 1e-2, atol 1e-2)"},
            difference(close.largest), "≤", {"1e-2 + 1e-2·|b|", atol}, close.close,
            lab.settings().given ? Gate::informs : Gate::fails_the_lab);
  if (!lab.settings().given) return;
  // Each may be off from float64 by its bound.
  const app::Limits limits = app::LimitTable(call, geometry_of(call)).of("out");
  const double largest = app::magnitudes_of(fused.out).largest;
  const double bound = 2 * (8 * (limits.relative * largest + limits.noise) + limits.peak);
  add_check(step, "05_bound",
            {"cuDNN and fused differ by no more than their bounds", "cuDNN और fused का अंतर उनकी सीमाओं से अधिक नहीं"},
            difference(close.largest), "≤", difference(bound), close.largest <= bound);
}

}  // namespace

StepEntry vendor_attention() {
  return {
      5,
      {"cuDNN fused attention (vendor forced)", "cuDNN का fused अटेंशन (vendor का कर्नल, नाम लेकर चुना गया)"},
      {"NVIDIA's own library has a fused kernel too. It is forced here instead of being left to the automatic choice, because "
       "only then is it sure to run: what it cannot do is an error with a reason, never a quiet detour.",
       "NVIDIA की अपनी लाइब्रेरी में भी एक fused कर्नल है। यहाँ चुनाव auto पर नहीं छोड़ा गया, उसे नाम लेकर चुना गया है; तभी निश्चित है कि "
       "वही चलता है: जो वह "
       "नहीं कर सकता, वह कारण सहित त्रुटि बनता है, चुपचाप कोई दूसरा रास्ता नहीं।"},
      {},
      run};
}

}  // namespace dhyan::lab

// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "arguments.hpp"
#include "lab/show.hpp"
#include "lab/steps.hpp"

namespace dhyan::lab {
namespace {

void run(Lab& lab, report::Step& step) {
  const std::string device = app::name_of(lab.settings().device);
  step.title = {"FP8 attention — not available on this device", "FP8 अटेंशन — इस डिवाइस पर उपलब्ध नहीं"};
  step.outcome = report::Outcome::not_available;
  step.reason = {fmt::format("{}: No detected support; requires an FP8 implementation, which dhyan {} has for no device.",
                             device, dhyan_version()),
                 fmt::format("{}: समर्थन नहीं मिला; इसके लिए FP8 वाला तरीक़ा चाहिए, जो dhyan {} में किसी डिवाइस के लिए नहीं है।", device,
                             dhyan_version())};
  step.blocks.emplace_back(
      report::Table{.key = "10_fp8",
                    .title = {"FP8 support", "FP8 समर्थन"},
                    .columns = {{"device", {"Device", "डिवाइस"}}, {"support", {"Support", "समर्थन"}}},
                    .rows = {{word(device), word("No detected support; requires an FP8 implementation")}}});
  step.blocks.emplace_back(
      report::Code{"fp8::autocast scope{fp8::DelayedScaling{}};  // from here on in FP8\n"
                   "module(query, key, value, out);"});
}

}  // namespace

StepEntry fp8_attention() {
  return {10,
          {"FP8 attention with DelayedScaling", "DelayedScaling के साथ FP8 अटेंशन"},
          {"FP8 keeps Q, K and V in 8 bits each and scales every tensor so that its values fit; DelayedScaling takes the scale "
           "from "
           "the largest values of earlier calls. It trades accuracy for speed on processors that multiply 8-bit numbers.",
           "FP8 में Q, K और V की हर संख्या 8 बिट में रहती है, और हर टेंसर को ऐसे गुणक (scale) से गुणा किया जाता है कि उसके मान समा जाएँ; "
           "DelayedScaling यह गुणक पिछली कॉलों के "
           "सबसे बड़े मानों से निकालता है। जो प्रोसेसर 8-बिट संख्याओं का गुणा करते हैं, उन पर इससे सटीकता के बदले गति मिलती है।"},
          {},
          run};
}

}  // namespace dhyan::lab

// SPDX-License-Identifier: Apache-2.0
#include "lab/show.hpp"
#include "lab/steps.hpp"

namespace dhyan::lab {
namespace {

report::Text verdict_word(report::Verdict verdict) {
  switch (verdict) {
    case report::Verdict::passed:
      return {"passed", "सफल"};
    case report::Verdict::failed:
      return {"FAILED", "असफल"};
    case report::Verdict::informative:
      return {"informative", "केवल जानकारी"};
    default:
      return {"not run", "नहीं हुई"};
  }
}

const report::Text learned[] = {
    {"Naive attention runs several kernels one after the other and keeps the whole matrix of weights, which grows as T².",
     "naive अटेंशन कई कर्नल एक के बाद एक चलाता है और भारों का पूरा मैट्रिक्स रखता है, जो T² की तरह बढ़ता है।"},
    {"Fused attention is one operation: tile by tile, with memory for the output only.",
     "fused अटेंशन एक ही क्रिया है: टुकड़ा-दर-टुकड़ा, और मेमोरी केवल आउटपुट के लिए।"},
    {"A forced vendor kernel needs 16-bit inputs and a GPU of compute capability 8.0 or more, and pays on long sequences.",
     "नाम लेकर चुने गए vendor कर्नल को 16-बिट इनपुट और compute capability 8.0 या अधिक का GPU चाहिए; लंबे अनुक्रमों पर वह लाभ देता है।"},
    {"Causal masking is built in: no mask array is made, and tiles that nobody sees are skipped.",
     "causal मास्क भीतर ही बना है: मास्क की कोई सरणी नहीं बनती, और जिन टुकड़ों को कोई नहीं देखता वे छोड़ दिए जाते हैं।"},
    {"GQA and MQA shrink the KV cache by as much as heads are shared.",
     "GQA और MQA में heads जितने साझा होते हैं, KV cache उतना ही छोटा होता है।"},
    {"FP8 trades accuracy for speed, and only where the hardware multiplies 8-bit numbers.",
     "FP8 सटीकता के बदले गति देता है, और वह भी तभी जब हार्डवेयर 8-बिट संख्याओं का गुणा करता हो।"}};

void run(Lab& lab, report::Step& step) {
  report::Table table{.key = "12_checks",
                      .title = {"Every check above", "ऊपर की हर जाँच"},
                      .columns = {{"check", {"Check", "जाँच"}},
                                  {"value", {"Value", "मान"}, true},
                                  {"limit", {"Limit", "सीमा"}, true},
                                  {"verdict", {"Verdict", "निर्णय"}}},
                      .rows = {}};
  for (const report::Step& earlier : lab.earlier()) {
    for (const report::Check& check : earlier.checks) {
      table.rows.push_back({word(check.name),
                            check.value,
                            {check.relation + " " + check.limit.text, check.limit.value},
                            word(verdict_word(check.verdict))});
    }
  }
  if (table.rows.empty()) {
    step.notes.push_back({"None of the steps that ran checks anything.", "जो चरण चले, उनमें से किसी में कोई जाँच नहीं है।"});
  } else {
    step.blocks.emplace_back(std::move(table));
  }
  for (const report::Text& sentence : learned) step.blocks.emplace_back(report::Paragraph{sentence});
}

}  // namespace

StepEntry verdict() {
  return {
      12,
      {"Verdict, and what you learned", "निर्णय, और आपने क्या सीखा"},
      {"Every claim of the steps above is a check with a value and a limit. Those marked informative depend on the clock or on "
       "tensors you brought; they are shown, but fail nothing.",
       "ऊपर के चरणों का हर दावा एक जाँच है, जिसका एक मान और एक सीमा है। जिन पर informative (केवल जानकारी) लिखा है, वे घड़ी पर या आपके "
       "दिए टेंसरों पर "
       "निर्भर हैं; वे दिखाई जाती हैं, पर "
       "उनसे कुछ असफल नहीं होता।"},
      {},
      run};
}

}  // namespace dhyan::lab

// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "lab/encoder_head.hpp"
#include "lab/show.hpp"
#include "lab/steps.hpp"
#include "measure/difference.hpp"

namespace dhyan::lab {
namespace {

// The largest |a - b| at one query position, over batch, heads and head dimension.
double difference_at(const app::Array& a, const app::Array& b, std::int64_t position) {
  const std::vector<double> left = app::doubles_of(a), right = app::doubles_of(b);
  const std::int64_t row = a.shape[2] * a.shape[3];
  double largest = 0;
  for (std::int64_t batch = 0; batch < a.shape[0]; ++batch) {
    const std::int64_t from = (batch * a.shape[1] + position) * row;
    for (std::int64_t i = from; i < from + row; ++i) {
      const double off = std::abs(left[static_cast<std::size_t>(i)] - right[static_cast<std::size_t>(i)]);
      if (std::isnan(off) || off > largest) largest = off;  // NaN stays
    }
  }
  return largest;
}

void run(Lab& lab, report::Step& step) {
  constexpr double first_least = 0.1, last_most = 1e-5;
  const app::Call full = lab.call(lab.inputs(), app::Element::f32);
  const app::Call causal = lab.call(lab.inputs(), app::Element::f32, Causal::top_left);
  const std::int64_t length = full.query.shape[1];
  if (full.query.count() == 0 || full.value.count() == 0) {
    step.outcome = report::Outcome::skipped;
    step.reason = {"There is no position to compare: the tensors are empty.", "तुलना के लिए कोई स्थान नहीं: टेंसर ख़ाली हैं।"};
    return;
  }
  lab.pause_point();
  const app::Outputs with = attend(causal, Implementation::automatic), without = attend(full, Implementation::automatic);
  const double first = difference_at(with.out, without.out, 0), last = difference_at(with.out, without.out, length - 1);
  step.blocks.emplace_back(
      report::Table{.key = "06_causal",
                    .title = {"Causal masking effect on attention output", "आउटपुट पर causal मास्क का असर"},
                    .columns = {{"position", {"Position", "स्थान"}},
                                {"max_difference", {"Max diff (causal vs full)", "अधिकतम अंतर (causal बनाम पूर्ण)"}, true},
                                {"expected", {"Expected", "अपेक्षित"}}},
                    .rows = {{word("First (t=0)", "पहला (t=0)"), fixed(first),
                              word("Large — causal restricts to self only", "बड़ा — causal में केवल स्वयं दिखता है")},
                             {word("Last (t=T-1)", "अंतिम (t=T-1)"), difference(last),
                              word("~0 — attends to all positions either way", "~0 — दोनों दशाओं में सब स्थान दिखते हैं")}}});
  step.blocks.emplace_back(encoder_heat_map(Causal::top_left, lab.settings().device));
  const Gate gate = lab.settings().given ? Gate::informs : Gate::fails_the_lab;
  add_check(step, "06_first", {"The first position changes", "पहला स्थान बदलता है"}, fixed(first), ">", {"0.1", first_least},
            first > first_least, gate);
  add_check(step, "06_last", {"The last position does not", "अंतिम स्थान नहीं बदलता"}, difference(last), "<", {"1e-5", last_most},
            last < last_most, gate);
}

}  // namespace

StepEntry causal_masking() {
  return {
      6,
      {"Causal masking effect on attention output", "आउटपुट पर causal मास्क का असर"},
      {"A model that writes text must not look ahead: a causal mask lets position t see positions 0 to t only. The first "
       "position then sees itself alone and its output changes most; the last one sees everything either way and stays as it "
       "was. In the picture everything right of the diagonal is gone, and each row still sums to 1.",
       "जो मॉडल पाठ लिखता है, उसे आगे नहीं झाँकना चाहिए: causal मास्क के साथ स्थान t केवल 0 से t तक के स्थान देखता है। तब पहला स्थान सिर्फ़ स्वयं "
       "को देखता है और उसका "
       "आउटपुट सबसे अधिक बदलता है; अंतिम स्थान दोनों दशाओं में सब कुछ देखता है, इसलिए वैसा ही रहता है। चित्र में विकर्ण के दाईं ओर कुछ नहीं बचा, फिर "
       "भी हर पंक्ति का योग 1 है।"},
      {},
      run};
}

}  // namespace dhyan::lab

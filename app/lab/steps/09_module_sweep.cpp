// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "lab/show.hpp"
#include "lab/steps.hpp"
#include "lab/sweep.hpp"

namespace dhyan::lab {
namespace {

// Bytes that differ between the module's output and the plain call's.
std::int64_t differing_bytes(const Lab& lab, const Inputs& inputs) {
  const app::Call call = lab.call(inputs, app::Element::bf16, Causal::top_left);
  const app::Outputs plain = attend(call, Implementation::automatic);
  app::Outputs module = make_outputs(call);
  poison(module);
  prepare(module_bf16, call, module).run();
  fetch(module);
  const std::span<const std::byte> a = plain.out.data.bytes(), b = module.out.data.bytes();
  std::int64_t differing = 0;
  for (std::size_t i = 0; i < a.size(); ++i) differing += a[i] != b[i];
  return differing;
}

}  // namespace

Sweep module_length_sweep(Lab& lab) {
  constexpr std::uint64_t first_seed = 1000;
  const std::optional<Inputs>& given = lab.settings().given;
  const app::Shape& shape = lab.inputs().query.shape;
  const std::string sizes = fmt::format("B={}, N={}, H={}", shape[0], shape[2], shape[3]);
  Sweep sweep;
  sweep.key = "09_module";
  sweep.title = {"Module sequence-length sweep — " + sizes, "मॉड्यूल: अनुक्रम की लंबाई के अनुसार समय — " + sizes};
  sweep.chart_title = {"Causal attention latency vs sequence length", "causal अटेंशन का समय बनाम अनुक्रम की लंबाई"};
  sweep.size_title = {"Seq len", "अनुक्रम की लंबाई"};
  sweep.letter = "T";
  sweep.candidates = {fused_bf16, vendor_bf16, module_bf16};
  sweep.causal = Causal::top_left;
  sweep.repeats = lab.repeats(2, 20);
  if (given) {
    sweep.sizes = {shape[1]};  // as given, whatever the number of keys
  } else if (lab.settings().quick) {
    sweep.sizes = {128, 256, 512};
  } else {
    sweep.sizes = {128, 256, 512, 1024, 2048};
    if (lab.on_gpu()) sweep.sizes.push_back(4096);
  }
  sweep.inputs = [&lab](std::int64_t length) {
    if (const auto& own = lab.settings().given) return prefix(*own, length, own->key.shape[1]);
    return normal_inputs(first_seed + static_cast<std::uint64_t>(length), app::Element::bf16, {batch, length, heads, head_dim});
  };
  return sweep;
}

namespace {

void run(Lab& lab, report::Step& step) {
  std::int64_t differing = 0;
  if (lab.on_gpu()) note_device_time(step);
  run_sweep(lab, step, module_length_sweep(lab),
            [&](const SweepRow&, const Inputs& inputs) { differing += differing_bytes(lab, inputs); });
  add_check(step, "09_same_bits",
            {"Bytes in which the module's output differs from the plain call's", "मॉड्यूल और सीधी कॉल के आउटपुट में भिन्न बाइट"},
            count(differing), "=", count(0), differing == 0);
}

}  // namespace

StepEntry module_sweep() {
  return {
      9,
      {"Module sequence-length sweep", "मॉड्यूल: अनुक्रम की लंबाई के अनुसार समय"},
      {"A model holds its attention as a module that knows its sizes and its mask, here nn::DotProductAttention with a causal "
       "mask. It chooses by itself what runs and adds nothing to the call it makes: its result must equal the plain call's bit "
       "for bit. Inputs are drawn in bf16.",
       "मॉडल में अटेंशन एक मॉड्यूल होता है जो अपने आकार और मास्क जानता है; यहाँ causal मास्क के साथ nn::DotProductAttention। क्या चलेगा, यह "
       "वह स्वयं चुनता है, और उसकी लागत "
       "उस कॉल से अधिक नहीं जो वह करता है: परिणाम सीधी कॉल से बिट-दर-बिट वही होना चाहिए। इनपुट सीधे bf16 में लिए गए हैं।"},
      {},
      run};
}

}  // namespace dhyan::lab

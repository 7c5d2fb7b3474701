// SPDX-License-Identifier: Apache-2.0
// The steps of the lab. A step is its words and one function that fills in what it found.
#pragma once

#include <span>

#include "lab/lab.hpp"
#include "report/document.hpp"

namespace dhyan::lab {

struct StepEntry {
  int number = 0;
  report::Text title;
  report::Text explanation;
  // Why the step is left out when the user brings tensors; empty: it runs on them.
  report::Text own_inputs_only;
  void (*run)(Lab& lab, report::Step& step) = nullptr;
};

// All of them, in their order.
std::span<const StepEntry> steps();

// One function a file, in steps/.
StepEntry what_attention_is();
StepEntry environment();
StepEntry attention_inputs();
StepEntry naive_attention();
StepEntry fused_attention();
StepEntry vendor_attention();
StepEntry causal_masking();
StepEntry benchmarks();
StepEntry head_variants();
StepEntry module_sweep();
StepEntry fp8_attention();
StepEntry next_steps();
StepEntry verdict();

}  // namespace dhyan::lab

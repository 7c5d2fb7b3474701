// SPDX-License-Identifier: Apache-2.0
#include "lab/steps.hpp"

#include <array>

namespace dhyan::lab {

std::span<const StepEntry> steps() {
  static const std::array all = {
      what_attention_is(), environment(),    attention_inputs(), naive_attention(), fused_attention(),
      vendor_attention(),  causal_masking(), benchmarks(),       head_variants(),   module_sweep(),
      fp8_attention(),     next_steps(),     verdict()};
  return all;
}

}  // namespace dhyan::lab

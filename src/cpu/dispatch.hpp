// SPDX-License-Identifier: Apache-2.0
// Choosing among the per-target builds of a function, without Highway's process-wide state.
#pragma once

#include <hwy/targets.h>

#include <cstddef>
#include <cstdint>

namespace dhyan::cpu {

// The entry of HWY_DISPATCH_TABLE(function) for the best of these HWY_* bits.
template <class Function, std::size_t kSize>
Function pick(Function const (&table)[kSize], std::int64_t targets) {
  hwy::ChosenTarget chosen;
  chosen.Update(targets);
  return table[chosen.GetIndex()];
}

}  // namespace dhyan::cpu

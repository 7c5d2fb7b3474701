// SPDX-License-Identifier: Apache-2.0
#include "cpu/choice.hpp"

#include "core/error.hpp"

namespace dhyan::cpu {
namespace {

// First match wins; a family of 0 is any. Both engines do the same work per f32 accumulator, so the question is only whether
// the processor issues VDPBF16PS (two products per lane) at more than half the rate of FMA (one).
struct Row {
  Vendor vendor;
  int family;
  DotPreference dot;
};
constexpr Row kTable[] = {
    {Vendor::amd, 0x19, {true, "VDPBF16PS measured at twice the rate of f32 FMA on Zen 4"}},
    {Vendor::amd, 0, {true, "AMD issues VDPBF16PS as often as f32 FMA"}},
    {Vendor::intel, 0, {false, "f32 FMA on widened operands measured twice as fast as VDPBF16PS on Intel server cores"}},
    {Vendor::other, 0, {false, "VDPBF16PS was never measured on this vendor's processors"}},
};

}  // namespace

DotPreference dot_preference(const Processor& processor) {
  for (const Row& row : kTable) {
    if (row.vendor == processor.vendor && (row.family == 0 || row.family == processor.family)) return row.dot;
  }
  return kTable[std::size(kTable) - 1].dot;
}

EngineChoice choose_engine(dhyan_dtype dtype) {
  if (!target_error().empty()) throw core::Error(DHYAN_INVALID_ARGUMENT, target_error());
  if (dtype == DHYAN_BF16) {
    if (const Engine* amx = amx_engine()) return {amx, "AMX is the fastest for bf16 wherever it may be used"};
    if (const Engine* dot = bf16_dot_engine()) {
      const DotPreference preference = dot_preference(processor());
      return {preference.preferred ? dot : &f32_engine(), preference.reason};
    }
    return {&f32_engine(), "no bf16 unit may be used: operands are widened to f32"};
  }
  return {&f32_engine(), "operands are multiplied as f32"};
}

}  // namespace dhyan::cpu

// SPDX-License-Identifier: Apache-2.0
#include "cpu/fused.hpp"

#include "core/convert.hpp"
#include "cpu/target.hpp"

namespace dhyan::cpu {
namespace {

std::string unavailable(const dhyan_device_description&) { return target_error(); }

std::optional<std::string> refuse(const core::Problem& p, const dhyan_device_description&) {
  if (p.dtype == DHYAN_F64) return "fused computes f32, f16 and bf16, not f64; reference and naive compute f64";
  if (p.dtype != DHYAN_F32 && p.dtype != DHYAN_F16 && p.dtype != DHYAN_BF16) {
    return std::string("fused computes f32, f16 and bf16, not ") + core::name_of(p.dtype);
  }
  if (p.precision != DHYAN_PRECISION_DEFAULT) return "precision tf32 needs a CUDA device; a CPU multiplies f32 as f32";
  if (p.head_dim > 512 || p.value_head_dim > 512) {
    return "fused takes head dimensions up to 512, not " + std::to_string(std::max(p.head_dim, p.value_head_dim));
  }
  return std::nullopt;
}

std::unique_ptr<core::Executable> plan(const core::Problem& p, const dhyan_device_description& device) {
  return p.direction == DHYAN_FORWARD ? plan_fused_forward(p, device) : plan_fused_backward(p, device);
}

}  // namespace

const core::ImplementationEntry fused_entry{DHYAN_FUSED, "fused", DHYAN_CPU, unavailable, refuse, plan};

}  // namespace dhyan::cpu

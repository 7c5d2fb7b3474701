// SPDX-License-Identifier: Apache-2.0
// Our own kernels for every device from compute capability 8.0 on.
#include "cuda/portable/fused.hpp"

#include <algorithm>
#include <optional>

#include "cuda/device.hpp"
#include "cuda/portable/backward_plan.hpp"
#include "cuda/portable/forward.hpp"
#include "cuda/portable/forward_plan.hpp"
#include "cuda/portable/problem.hpp"

namespace dhyan::cuda {
namespace {

std::string unavailable(const dhyan_device_description& device) { return refusal(device.device_index); }

std::optional<std::string> refuse(const core::Problem& p, const dhyan_device_description&) {
  if (p.dtype == DHYAN_F64) return "fused has no f64 kernels for CUDA devices; naive computes in f64";
  if (p.direction == DHYAN_BACKWARD) return portable::refuse_backward(p);
  if (p.dtype == DHYAN_F32 && std::max(p.head_dim, p.value_head_dim) > portable::kFloatHeadDims.back()) {
    return "fused takes head_dim and value_head_dim up to 256 in f32; naive takes any";
  }
  if (p.head_dim > portable::kHeadDims.back() || p.value_head_dim > portable::kHeadDims.back()) {
    return "fused takes head_dim and value_head_dim up to 512; naive takes any";
  }
  const std::int64_t rows = p.group() * p.query_length;
  if (rows > portable::kMaxPositions || p.key_length > portable::kMaxPositions ||
      p.batch * p.query_heads * (p.query_length / 16 + 1) > portable::kMaxPositions) {
    return "fused takes at most 1073741823 keys, queries of all heads that share a key head, and tiles of 16 queries";
  }
  return std::nullopt;
}

std::unique_ptr<core::Executable> plan(const core::Problem& p, const dhyan_device_description& device) {
  return p.direction == DHYAN_FORWARD ? portable::plan_forward(p, device) : portable::plan_backward(p, device);
}

}  // namespace

const core::ImplementationEntry fused_entry{DHYAN_FUSED, "fused", DHYAN_CUDA, unavailable, refuse, plan};

}  // namespace dhyan::cuda

// SPDX-License-Identifier: Apache-2.0
#include "reference/reference.hpp"

#include "core/convert.hpp"
#include "core/error.hpp"
#include "reference/backward.hpp"
#include "reference/forward.hpp"

namespace dhyan::reference {
namespace {

class Reference final : public core::Executable {
 public:
  explicit Reference(const core::Problem& problem) : problem_(problem) {}

  void run(const core::Buffers& buffers, void*, void*) const override {
    problem_.direction == DHYAN_FORWARD ? forward(problem_, buffers) : backward(problem_, buffers);
  }
  std::size_t scratch_bytes() const override { return 0; }
  std::string describe() const override { return "plain loops in float64, one task per batch entry and head"; }

 private:
  core::Problem problem_;
};

std::string unavailable(const dhyan_device_description&) { return {}; }

std::optional<std::string> refuse(const core::Problem& p, const dhyan_device_description&) {
  if (p.dtype != DHYAN_F64 && p.dtype != DHYAN_F32 && p.dtype != DHYAN_F16 && p.dtype != DHYAN_BF16) {
    return std::string("reference computes f64, f32, f16 and bf16, not ") + core::name_of(p.dtype);
  }
  if (p.precision != DHYAN_PRECISION_DEFAULT) return "reference never rounds; precision tf32 needs fused on a CUDA device";
  return std::nullopt;
}

std::unique_ptr<core::Executable> plan(const core::Problem& p, const dhyan_device_description&) {
  return std::make_unique<Reference>(p);
}

}  // namespace

const core::ImplementationEntry entry{DHYAN_REFERENCE, "reference", DHYAN_CPU, unavailable, refuse, plan};

}  // namespace dhyan::reference

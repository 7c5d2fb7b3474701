// SPDX-License-Identifier: Apache-2.0
// Which kernels a backward problem runs on, and the plan made of them.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/implementation.hpp"

namespace dhyan::cuda::portable {

// Why a problem in f32, f16 or bf16 cannot run, and what can; nothing when it can.
std::optional<std::string> refuse_backward(const core::Problem& p);

std::unique_ptr<core::Executable> plan_backward(const core::Problem& p, const dhyan_device_description& device);

}  // namespace dhyan::cuda::portable

// SPDX-License-Identifier: Apache-2.0
// Which tiles a forward problem runs on, and the plan made of them.
#pragma once

#include <memory>

#include "core/implementation.hpp"

namespace dhyan::cuda::portable {

// The problem is f16 or bf16 and was not refused.
std::unique_ptr<core::Executable> plan_forward(const core::Problem& p, const dhyan_device_description& device);

}  // namespace dhyan::cuda::portable

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/implementation.hpp"

namespace dhyan::cpu {

// Tiled online softmax; memory O(T).
extern const core::ImplementationEntry fused_entry;

// Both directions behind the entry.
std::unique_ptr<core::Executable> plan_fused_forward(const core::Problem& problem, const dhyan_device_description& device);
std::unique_ptr<core::Executable> plan_fused_backward(const core::Problem& problem, const dhyan_device_description& device);

}  // namespace dhyan::cpu

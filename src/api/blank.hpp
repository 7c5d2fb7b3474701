// SPDX-License-Identifier: Apache-2.0
// Problems without a single query: nothing to compute, but gradients to write.
#pragma once

#include <array>
#include <memory>

#include "api/validate.hpp"
#include "core/implementation.hpp"

namespace dhyan::api {

bool has_queries(const core::Problem& problem);

// Writes zeros into every output that has elements.
std::unique_ptr<core::Executable> plan_blank(const core::Problem& problem, const std::array<Layout, kSlots>& layouts);

}  // namespace dhyan::api

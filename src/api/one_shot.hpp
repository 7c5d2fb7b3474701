// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "dhyan/dhyan.h"

namespace dhyan::api {

inline constexpr std::size_t kMaxCachedPlans = 64;

// Validates, finds or makes the plan, and runs it on the tensors' own pointers. Throws Error.
void run_once(const dhyan_problem* problem, dhyan_direction direction, void* stream);

void trim_plans();

// How many plans are cached, and how many were made in all; for tests.
std::size_t cached_plans();
std::size_t made_plans();

}  // namespace dhyan::api

// SPDX-License-Identifier: Apache-2.0
// What every case is held to: each implementation against the reference, forward and backward.
#pragma once

#include <vector>

#include "core/implementation.hpp"
#include "support/case.hpp"

namespace dhyan::testing {

// The implementations that are checked against the reference.
const std::vector<const core::ImplementationEntry*>& implementations();

// Runs every implementation that does not refuse the case's dtype and compares all outputs with the reference's.
void check_case(const Case& c);
void check_case(const Instance& instance);

}  // namespace dhyan::testing

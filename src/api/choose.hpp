// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "core/implementation.hpp"

namespace dhyan::api {

// Every implementation on every kind of device that this build knows: one line each.
std::span<const core::ImplementationEntry* const> implementations();

// The row of a pair; every pair has one.
const core::ImplementationEntry* find(dhyan_implementation implementation, dhyan_device_type type);

// Throws Error when the implementation cannot run on the device at all.
void require_available(dhyan_implementation implementation, dhyan_device_type type, std::int32_t index);

struct Choice {
  const core::ImplementationEntry* entry;
  std::string why;  // lines for describe(): what was asked for, and what was passed over and why
};

// Throws Error (unsupported) naming the reason and what would work, when nothing that was asked for can run the problem.
// `may_compile`: `auto` considers implementations whose plans take seconds.
Choice choose(const core::Problem& problem, const dhyan_device_description& device, bool may_compile);

}  // namespace dhyan::api

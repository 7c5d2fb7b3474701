// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/implementation.hpp"

namespace dhyan::cpu {

// Three steps with the matrix of weights in memory.
extern const core::ImplementationEntry naive_entry;

}  // namespace dhyan::cpu

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/implementation.hpp"

namespace dhyan::reference {

// float64 throughout, plain loops, every dtype and option on the CPU: the oracle.
extern const core::ImplementationEntry entry;

}  // namespace dhyan::reference

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/implementation.hpp"

namespace dhyan::cuda {

// Three steps with the matrix of weights in memory: cuBLASLt, one kernel, cuBLASLt.
extern const core::ImplementationEntry naive_entry;

}  // namespace dhyan::cuda

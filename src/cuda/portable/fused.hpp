// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/implementation.hpp"

namespace dhyan::cuda {

extern const core::ImplementationEntry fused_entry;

}  // namespace dhyan::cuda

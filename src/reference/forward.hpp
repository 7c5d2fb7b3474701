// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/problem.hpp"

namespace dhyan::reference {

void forward(const core::Problem& problem, const core::Buffers& buffers);

}  // namespace dhyan::reference

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/problem.hpp"

namespace dhyan::reference {

void backward(const core::Problem& problem, const core::Buffers& buffers);

}  // namespace dhyan::reference

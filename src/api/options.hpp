// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/problem.hpp"

namespace dhyan::api {

// Checks the options and writes them into a problem whose shapes are known.
void apply_options(const dhyan_options& options, const dhyan_device_description& device, core::Problem& problem);

}  // namespace dhyan::api

// SPDX-License-Identifier: Apache-2.0
// In which order `auto` tries implementations: rules read off measurements, kept as data.
#pragma once

#include <span>

#include "core/problem.hpp"

namespace dhyan::api {

struct Preference {
  std::span<const dhyan_implementation> order;  // fastest first
  const char* measured_on;                      // machine and date; NULL: the order holds everywhere
};

Preference preference(const core::Problem& problem, dhyan_device_type device_type);

}  // namespace dhyan::api

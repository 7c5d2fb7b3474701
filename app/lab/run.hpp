// SPDX-License-Identifier: Apache-2.0
// Runs the steps that were asked for, one after the other.
#pragma once

#include <functional>

#include "lab/lab.hpp"
#include "report/document.hpp"

namespace dhyan::lab {

// `done` is told of every step as it finishes. `stop` is asked between calls; once it says so the step at hand ends with what
// it has, and the document is not complete. `document` comes with its head filled in.
void run_steps(const Settings& settings, report::Document& document, const std::function<void(const report::Step&)>& done,
               const std::function<bool()>& stop);

}  // namespace dhyan::lab

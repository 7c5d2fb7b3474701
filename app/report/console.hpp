// SPDX-License-Identifier: Apache-2.0
// A step as a terminal shows it.
#pragma once

#include <string>

#include "report/document.hpp"

namespace dhyan::report {

// No line is wider than `width` columns; colours where standard output has them. English.
std::string console_text(const Step& step, int width);

}  // namespace dhyan::report

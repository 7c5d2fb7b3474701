// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "report/document.hpp"

namespace dhyan::report {

// RFC 4180 with column keys as the head; a cell with a number behind it is written as that number, in full;
// one that shows a dash is empty.
std::string csv(const Table& table);

}  // namespace dhyan::report

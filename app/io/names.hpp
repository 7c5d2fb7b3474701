// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dhyan::app {

// Says that `file` has no tensor `name`, and which it has.
[[noreturn]] void refuse_name(std::string_view file, std::string_view name, const std::vector<std::string>& names);

}  // namespace dhyan::app

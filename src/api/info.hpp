// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace dhyan::api {

// dhyan_info's JSON object.
std::string info();

}  // namespace dhyan::api

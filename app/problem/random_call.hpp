// SPDX-License-Identifier: Apache-2.0
// Random calls over all options and awkward sizes.
#pragma once

#include <string>

#include "problem/call.hpp"
#include "problem/random.hpp"

namespace dhyan::app {

struct RandomCall {
  Call call;
  std::string description;  // one line
};

// Small enough for the reference; `backward` adds the gradient of out, sometimes of lse.
RandomCall random_call(Random& random, bool backward);

}  // namespace dhyan::app

// SPDX-License-Identifier: Apache-2.0
// A case by way of dhyan.h, as a client would run it.
#pragma once

#include "support/case.hpp"

namespace dhyan::testing {

// One-shot calls with poisoned outputs; a status other than DHYAN_OK fails the test with the message.
Forward public_forward(dhyan_implementation implementation, const Instance& instance);
Backward public_backward(dhyan_implementation implementation, const Instance& instance, const Forward& given);

}  // namespace dhyan::testing

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "dhyan/dhyan.h"

namespace dhyan::api {

// Throws Error when this machine or this build has no such device.
dhyan_device_description describe_device(dhyan_device_type type, std::int32_t index);

// The device that a problem's query names. Throws Error.
dhyan_device_description device_of(const dhyan_problem* problem);

// A client's own description, checked; NULL: the problem's device as it is.
dhyan_device_description device_or_default(const dhyan_device_description* device, const dhyan_problem* problem);

}  // namespace dhyan::api

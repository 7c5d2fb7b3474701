// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "dhyan/dhyan.h"

namespace dhyan::api {

// Throws Error when this machine or this build has no such device.
dhyan_device_description describe_device(dhyan_device_type type, std::int32_t index);

// A client's own description, checked; NULL: the processor as it is.
dhyan_device_description device_or_default(const dhyan_device_description* device);

}  // namespace dhyan::api

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dhyan/dhyan.h"

namespace dhyan::api {

// dhyan_convert. Throws Error.
void convert(const dhyan_tensor* source, const dhyan_tensor* destination, void* stream);

}  // namespace dhyan::api

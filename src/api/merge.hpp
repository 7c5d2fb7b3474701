// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dhyan/dhyan.h"

namespace dhyan::api {

// dhyan_merge. Throws Error.
void merge(const dhyan_tensor* out_a, const dhyan_tensor* lse_a, const dhyan_tensor* out_b, const dhyan_tensor* lse_b,
           const dhyan_tensor* out, const dhyan_tensor* lse, void* stream);

}  // namespace dhyan::api

// SPDX-License-Identifier: Apache-2.0
// What a device's compute capability says of it (CUDA C++ Programming Guide, "Technical Specifications per Compute
// Capability").
#pragma once

#include "dhyan/dhyan.h"

namespace dhyan::cuda::portable {

// Shared memory that one block may have.
inline int shared_limit(const dhyan_device_description& device) {
  switch (device.compute_major * 10 + device.compute_minor) {
    case 80:
    case 87:
      return 163 * 1024;
    case 86:
    case 89:
    case 120:
    case 121:
      return 99 * 1024;
    default:
      return 227 * 1024;
  }
}

// Whether a kernel may start before the one it depends on has ended.
inline bool starts_early(const dhyan_device_description& device) { return device.compute_major >= 9; }

}  // namespace dhyan::cuda::portable

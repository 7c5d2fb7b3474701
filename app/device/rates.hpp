// SPDX-License-Identifier: Apache-2.0
// What a GPU reaches at best, measured: the marks that attention is held against.
#pragma once

#include <string>

#include "dhyan/dhyan.hpp"

namespace dhyan::app {

struct DeviceRates {
  double matmul_tflops = 0;    // bf16 with f32 sums, 8192³, cuBLASLt
  std::string matmul_missing;  // why it was not measured; empty: it was
  double copy_gb_per_s = 0;    // device to device, bytes read and bytes written
};

DeviceRates measure_rates(Device device);

}  // namespace dhyan::app

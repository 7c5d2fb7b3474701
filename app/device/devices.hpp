// SPDX-License-Identifier: Apache-2.0
// The devices of this machine, as the command speaks of them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "dhyan/dhyan.hpp"

namespace dhyan::app {

// What auto stands for: the first CUDA device that an implementation runs on, else the CPU.
Device default_device();
// As the machine says it; "unknown" where it does not.
std::string device_name(Device device);
std::string name_of(Device device);   // "cpu", "cuda:0"
std::string title_of(Device device);  // "cuda:0, NVIDIA H200"

// What identifies it where results are kept: device, name, memory, of a GPU its compute capability and driver, and the
// processor.
std::vector<std::pair<std::string, std::string>> facts_of(Device device);

inline constexpr bool on_host(Device device) { return device.type == DHYAN_CPU; }

}  // namespace dhyan::app

// SPDX-License-Identifier: Apache-2.0
// How long a call takes a GPU, and the host that starts it.
#pragma once

#include <functional>
#include <vector>

#include "device/memory.hpp"
#include "measure/statistics.hpp"

namespace dhyan::app {

struct DeviceTimes {
  // Microseconds of one call on the device, a sample per replay of a captured graph between two events. Without a flush the
  // graph holds as many calls, one after the other, as fill some tenths of a millisecond.
  std::vector<double> device_us;
  // Microseconds of the host for one call, a sample per burst of calls on an idle stream, the clock stopped before the wait.
  std::vector<double> host_us;
};

// Before each call that is timed on the device.
enum class Cache { as_it_is, flushed };

// `launch` starts one call on a cudaStream_t; it must be one that can be captured.
DeviceTimes time_on_device(const std::function<void(void* stream)>& launch, Device device, const Repeats& repeats, Cache cache);

}  // namespace dhyan::app

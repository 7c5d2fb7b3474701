// SPDX-License-Identifier: Apache-2.0
// Of a build without CUDA: parse_device() lets no GPU through.
#include "device/rates.hpp"
#include "device/stopwatch.hpp"

namespace dhyan::app {
namespace {

[[noreturn]] void refuse_device() { throw Error(Status::unsupported, "this build of dhyan has no CUDA support"); }

}  // namespace

DeviceTimes time_on_device(const std::function<void(void*)>&, Device, const Repeats&, Cache) { refuse_device(); }
DeviceRates measure_rates(Device) { refuse_device(); }

}  // namespace dhyan::app

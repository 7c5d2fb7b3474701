// SPDX-License-Identifier: Apache-2.0
// Of a build without CUDA: parse_device() lets no GPU through.
#include "device/memory.hpp"

namespace dhyan::app {
namespace {

[[noreturn]] void refuse_device() { throw Error(Status::unsupported, "this build of dhyan has no CUDA support"); }

}  // namespace

DeviceMemory::DeviceMemory(std::size_t, Device) { refuse_device(); }
void DeviceMemory::Free::operator()(std::byte*) const {}
void DeviceMemory::write(std::span<const std::byte>) const { refuse_device(); }
void DeviceMemory::read(std::span<std::byte>) const { refuse_device(); }
void DeviceMemory::fill(std::byte) const { refuse_device(); }

void wait_for(Device device) {
  if (device.type != DHYAN_CPU) refuse_device();
}

}  // namespace dhyan::app

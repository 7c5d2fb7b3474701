// SPDX-License-Identifier: Apache-2.0
#include "device/memory.hpp"

#include <fmt/format.h>

#include "device/cuda/error.hpp"

namespace dhyan::app {

DeviceMemory::DeviceMemory(std::size_t bytes, Device device) : size_(bytes) {
  use(device.index);
  void* data = nullptr;
  if (cudaMalloc(&data, bytes > 0 ? bytes : 1) == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    std::size_t unused = 0, all = 0;
    check(cudaMemGetInfo(&unused, &all), "cudaMemGetInfo");
    constexpr double gibibyte = 1 << 30;
    throw Error(Status::out_of_memory,
                fmt::format("cuda:{}: {:.2f} GiB of its memory cannot be had; {:.2f} of {:.2f} GiB are free", device.index,
                            static_cast<double>(bytes) / gibibyte, static_cast<double>(unused) / gibibyte,
                            static_cast<double>(all) / gibibyte));
  }
  check(cudaGetLastError(), "cudaMalloc");
  data_.reset(static_cast<std::byte*>(data));
}

void DeviceMemory::Free::operator()(std::byte* data) const { cudaFree(data); }

void DeviceMemory::write(std::span<const std::byte> from) const {
  check(cudaMemcpy(data(), from.data(), from.size(), cudaMemcpyHostToDevice), "copying to the device");
}

void DeviceMemory::read(std::span<std::byte> to) const {
  check(cudaDeviceSynchronize(), "waiting for the device");
  check(cudaMemcpy(to.data(), data(), to.size(), cudaMemcpyDeviceToHost), "copying from the device");
}

void DeviceMemory::fill(std::byte value) const {
  check(cudaMemset(data(), std::to_integer<int>(value), size()), "filling memory of the device");
}

void wait_for(Device device) {
  if (device.type == DHYAN_CPU) return;
  use(device.index);
  check(cudaDeviceSynchronize(), "waiting for the device");
}

}  // namespace dhyan::app

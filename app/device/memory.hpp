// SPDX-License-Identifier: Apache-2.0
// Memory of a GPU. A build without CUDA has no GPU to name, so that nothing here is ever called there.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "dhyan/dhyan.hpp"

namespace dhyan::app {

// Throws Error: out_of_memory with the bytes, device_error with what the driver says.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  // Unwritten.
  DeviceMemory(std::size_t bytes, Device device);
  std::byte* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  std::span<std::byte> bytes() const { return {data_.get(), size_}; }

  // From and to host memory of the same size; read() waits for what the device was given before.
  void write(std::span<const std::byte> from) const;
  void read(std::span<std::byte> to) const;
  void fill(std::byte value) const;

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t size_ = 0;
};

// Until the device has done all that it was given; on a CPU nothing is ever under way.
void wait_for(Device device);

}  // namespace dhyan::app

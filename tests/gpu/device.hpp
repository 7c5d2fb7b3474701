// SPDX-License-Identifier: Apache-2.0
// Tensors of a test on a GPU, and cases run there.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>

#include "support/client.hpp"

namespace dhyan::testing::gpu {

// Fails the test unless the status is success.
void expect_success(cudaError_t status, const char* action);

// Device memory with 0xFF in every byte, also past its end; how much was written there is checked when it goes.
class Memory {
 public:
  explicit Memory(std::size_t bytes);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }

 private:
  std::size_t bytes_;
  std::byte* data_ = nullptr;
};

// An array's whole storage, the poison around its elements included.
class Mirror {
 public:
  explicit Mirror(const Array& array);
  void* data() const { return memory_ ? memory_->data() + begin_ : nullptr; }
  // Copies everything back, when the device has done all it was given.
  void read(Array& array) const;

 private:
  std::unique_ptr<Memory> memory_;
  std::int64_t begin_ = 0;
};

// The inputs of a case on cuda:0.
class InputsOnDevice {
 public:
  const core::Problem& problem() const { return problem_; }
  const core::Buffers& buffers() const { return buffers_; }

 protected:
  InputsOnDevice(const Instance& instance, const core::Problem& problem);
  void* copy(const Array& array) { return inputs_.emplace_back(array).data(); }

  core::Problem problem_;
  core::Buffers buffers_{};

 private:
  std::vector<Mirror> inputs_;
};

// Forward, with its outputs.
class ForwardOnDevice : public InputsOnDevice {
 public:
  explicit ForwardOnDevice(const Instance& instance);
  // What the device wrote; memory around the outputs is checked.
  Forward result() const;

 private:
  Forward empty_;
  Mirror out_, lse_;
};

// Backward, for the results of a forward pass given, with the gradients that the case asks for.
class BackwardOnDevice : public InputsOnDevice {
 public:
  BackwardOnDevice(const Instance& instance, const Forward& given);
  Backward result() const;

 private:
  Backward empty_;
  Mirror grad_query_, grad_key_, grad_value_, grad_bias_, grad_sink_;
};

dhyan_device_description device();

// Plan and run on cuda:0, outputs and scratch poisoned. The case must not be refused.
Forward run_forward(const core::ImplementationEntry& entry, const Instance& instance, cudaStream_t stream = nullptr);
Backward run_backward(const core::ImplementationEntry& entry, const Instance& instance, const Forward& given,
                      cudaStream_t stream = nullptr);

// Holds every implementation of CUDA devices that does not refuse the case to the reference; one at least must run it.
void check_case(const Instance& instance);
void check_case(const Case& c);
// The same backward, for the reference's out and lse rounded; a case without gradients is none.
void check_backward(const Instance& instance);
void check_backward(const Case& c);

// A client's problem with all its tensors on cuda:0.
class ClientOnDevice {
 public:
  explicit ClientOnDevice(Client& client);
  // A tensor of the client as it is on the device now.
  std::vector<std::byte> read(api::Slot slot) const;

 private:
  Client& client_;
  std::vector<std::unique_ptr<Memory>> memory_;
};

}  // namespace dhyan::testing::gpu

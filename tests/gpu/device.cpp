// SPDX-License-Identifier: Apache-2.0
#include "gpu/device.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "api/device.hpp"
#include "core/convert.hpp"
#include "cuda/device.hpp"
#include "support/bounds.hpp"
#include "support/compare.hpp"

namespace dhyan::testing::gpu {
namespace {

constexpr std::size_t kGuard = 256;  // bytes behind each block that nobody may write

}  // namespace

void expect_success(cudaError_t status, const char* action) {
  EXPECT_EQ(status, cudaSuccess) << action << ": " << cudaGetErrorString(status);
}

Memory::Memory(std::size_t bytes) : bytes_(bytes) {
  void* data = nullptr;
  expect_success(cudaMalloc(&data, bytes + kGuard), "cudaMalloc");
  data_ = static_cast<std::byte*>(data);
  expect_success(cudaMemset(data, 0xFF, bytes + kGuard), "cudaMemset");
}

Memory::~Memory() {
  std::vector<std::byte> guard(kGuard);
  expect_success(cudaMemcpy(guard.data(), data_ + bytes_, kGuard, cudaMemcpyDeviceToHost), "reading a guard");
  EXPECT_TRUE(std::ranges::all_of(guard, [](std::byte b) { return b == std::byte{0xFF}; }))
      << "written past " << bytes_ << " bytes";
  expect_success(cudaFree(data_), "cudaFree");
}

Mirror::Mirror(const Array& array) : begin_(array.begin()) {
  if (!array.present()) return;
  memory_ = std::make_unique<Memory>(static_cast<std::size_t>(array.storage_bytes()));
  expect_success(cudaMemcpy(memory_->data(), array.storage(), memory_->size(), cudaMemcpyHostToDevice), "writing a tensor");
}

void Mirror::read(Array& array) const {
  if (!memory_) return;
  expect_success(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  expect_success(cudaMemcpy(array.storage(), memory_->data(), memory_->size(), cudaMemcpyDeviceToHost), "reading a tensor");
  EXPECT_TRUE(array.poison_outside_elements()) << "memory that is no element was written";
}

ForwardOnDevice::ForwardOnDevice(const Instance& x)
    : instance_(x),
      problem_(x.problem),
      buffers_{},
      empty_{x.out.like(), x.description.lse ? x.lse.like() : Array()},
      out_(empty_.out),
      lse_(empty_.lse) {
  problem_.device_type = DHYAN_CUDA;
  buffers_.struct_size = sizeof buffers_;
  const auto copy = [&](const Array& array) -> const void* { return inputs_.emplace_back(array).data(); };
  buffers_.query = copy(x.query);
  buffers_.key = copy(x.key);
  buffers_.value = copy(x.value);
  buffers_.bias = copy(x.bias);
  buffers_.mask = copy(x.mask);
  buffers_.alibi_slopes = copy(x.alibi_slopes);
  buffers_.sink = copy(x.sink);
  buffers_.query_lengths = copy(x.query_lengths);
  buffers_.key_lengths = copy(x.key_lengths);
  buffers_.query_offsets = copy(x.query_offsets);
  buffers_.key_offsets = copy(x.key_offsets);
  buffers_.out = out_.data();
  buffers_.lse = lse_.data();
}

Forward ForwardOnDevice::result() const {
  Forward result{empty_.out.like(), instance_.description.lse ? empty_.lse.like() : Array()};
  out_.read(result.out);
  lse_.read(result.lse);
  return result;
}

dhyan_device_description device() { return api::describe_device(DHYAN_CUDA, 0); }

Forward run_forward(const core::ImplementationEntry& entry, const Instance& x, cudaStream_t stream) {
  const ForwardOnDevice on_device(x);
  const auto executable = entry.plan(on_device.problem(), device());
  const Memory scratch(executable->scratch_bytes());
  expect_success(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  executable->run(on_device.buffers(), scratch.data(), stream);
  return on_device.result();
}

void check_case(const Instance& x) {
  SCOPED_TRACE(describe(x.description) + ", seed " + std::to_string(run_seed()));
  const Forward want = exact_forward(x);
  const ForwardBounds bounds = forward_bounds(x, want);
  core::Problem problem = x.problem;
  problem.device_type = DHYAN_CUDA;
  int ran = 0;
  for (const core::ImplementationEntry* entry : cuda::implementations()) {
    if (!entry->unavailable(device()).empty() || entry->refuse(problem, device())) continue;
    ++ran;
    const Forward got = run_forward(*entry, x);
    EXPECT_TRUE(within(got.out, want.out, bounds.out)) << entry->name << " forward, out";
    if (!got.lse.present()) continue;
    EXPECT_TRUE(within(got.lse, want.lse, bounds.lse)) << entry->name << " forward, lse";
  }
  EXPECT_GT(ran, 0) << "no implementation ran it";
}

void check_case(const Case& c) { check_case(Instance(c, Random(describe(c)))); }

ClientOnDevice::ClientOnDevice(Client& client) : client_(client) {
  client.options.threads = 0;
  memory_.resize(api::kSlots);
  for (std::size_t i = 0; i < api::kSlots; ++i) {
    const auto slot = static_cast<api::Slot>(i);
    dhyan_tensor& tensor = client[slot];
    if (tensor.dtype == DHYAN_NONE) continue;
    std::size_t bytes = core::size_of(tensor.dtype);
    for (std::int32_t d = 0; d < tensor.rank; ++d) bytes *= static_cast<std::size_t>(tensor.shape[d]);
    memory_[i] = std::make_unique<Memory>(bytes);
    expect_success(cudaMemcpy(memory_[i]->data(), tensor.data, bytes, cudaMemcpyHostToDevice), "writing a tensor");
    tensor.data = memory_[i]->data();
    tensor.device_type = DHYAN_CUDA;
  }
}

std::vector<std::byte> ClientOnDevice::read(api::Slot slot) const {
  std::vector<std::byte> bytes(memory_[slot]->size());
  expect_success(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  expect_success(cudaMemcpy(bytes.data(), memory_[slot]->data(), bytes.size(), cudaMemcpyDeviceToHost), "reading a tensor");
  return bytes;
}

}  // namespace dhyan::testing::gpu

// SPDX-License-Identifier: Apache-2.0
#include "gpu/device.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "api/device.hpp"
#include "core/convert.hpp"
#include "cuda/device.hpp"
#include "support/bounds.hpp"
#include "support/compare.hpp"

namespace dhyan::testing::gpu {
namespace {

constexpr std::size_t kGuard = 256;  // bytes behind each block that nobody may write

void run(const core::ImplementationEntry& entry, const InputsOnDevice& on_device, cudaStream_t stream) {
  const auto executable = entry.plan(on_device.problem(), device());
  const Memory scratch(executable->scratch_bytes());
  expect_success(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  executable->run(on_device.buffers(), scratch.data(), stream);
  expect_success(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

// DHYAN_TEST_IMPLEMENTATION names the only one that a run is about. Else one that compiles its plans is held to one of eight
// cases, the same ones every time: all of them take minutes.
bool wanted(const core::ImplementationEntry& entry, const Case& c) {
  if (const char* name = std::getenv("DHYAN_TEST_IMPLEMENTATION")) return std::strcmp(name, entry.name) == 0;
  return !entry.compiles || std::hash<std::string>()(describe(c)) % 8 == 0;
}

// The implementations that run the problem; none is a failure.
std::vector<const core::ImplementationEntry*> able(core::Problem problem, const Case& c) {
  problem.device_type = DHYAN_CUDA;
  std::vector<const core::ImplementationEntry*> all;
  for (const core::ImplementationEntry* entry : cuda::implementations()) {
    if (entry->unavailable(device()).empty() && !entry->refuse(problem, device())) all.push_back(entry);
  }
  EXPECT_FALSE(all.empty()) << "no implementation runs it";
  std::erase_if(all, [&](const core::ImplementationEntry* entry) { return !wanted(*entry, c); });
  return all;
}

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

InputsOnDevice::InputsOnDevice(const Instance& x, const core::Problem& problem) : problem_(problem) {
  problem_.device_type = DHYAN_CUDA;
  buffers_.struct_size = sizeof buffers_;
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
}

ForwardOnDevice::ForwardOnDevice(const Instance& x)
    : InputsOnDevice(x, x.problem),
      empty_{x.out.like(), x.description.lse ? x.lse.like() : Array()},
      out_(empty_.out),
      lse_(empty_.lse) {
  buffers_.out = out_.data();
  buffers_.lse = lse_.data();
}

Forward ForwardOnDevice::result() const {
  Forward result{empty_.out.like(), empty_.lse.like()};
  out_.read(result.out);
  lse_.read(result.lse);
  return result;
}

BackwardOnDevice::BackwardOnDevice(const Instance& x, const Forward& given)
    : InputsOnDevice(x, backward_problem(x, empty_gradients(x))),
      empty_(empty_gradients(x)),
      grad_query_(empty_.grad_query),
      grad_key_(empty_.grad_key),
      grad_value_(empty_.grad_value),
      grad_bias_(empty_.grad_bias),
      grad_sink_(empty_.grad_sink) {
  buffers_.out = copy(given.out);
  buffers_.lse = copy(given.lse);
  buffers_.grad_out = copy(x.grad_out);
  buffers_.grad_lse = copy(x.grad_lse);
  buffers_.grad_query = grad_query_.data();
  buffers_.grad_key = grad_key_.data();
  buffers_.grad_value = grad_value_.data();
  buffers_.grad_bias = grad_bias_.data();
  buffers_.grad_sink = grad_sink_.data();
}

Backward BackwardOnDevice::result() const {
  Backward result{empty_.grad_query.like(), empty_.grad_key.like(), empty_.grad_value.like(), empty_.grad_bias.like(),
                  empty_.grad_sink.like()};
  grad_query_.read(result.grad_query);
  grad_key_.read(result.grad_key);
  grad_value_.read(result.grad_value);
  grad_bias_.read(result.grad_bias);
  grad_sink_.read(result.grad_sink);
  return result;
}

dhyan_device_description device() { return api::describe_device(DHYAN_CUDA, 0); }

Forward run_forward(const core::ImplementationEntry& entry, const Instance& x, cudaStream_t stream) {
  const ForwardOnDevice on_device(x);
  run(entry, on_device, stream);
  return on_device.result();
}

Backward run_backward(const core::ImplementationEntry& entry, const Instance& x, const Forward& given, cudaStream_t stream) {
  const BackwardOnDevice on_device(x, given);
  run(entry, on_device, stream);
  return on_device.result();
}

void check_case(const Instance& x) {
  SCOPED_TRACE(describe(x.description) + ", seed " + std::to_string(run_seed()));
  const Forward want = exact_forward(x);
  const ForwardBounds bounds = forward_bounds(x, want);
  for (const core::ImplementationEntry* entry : able(x.problem, x.description)) {
    const Forward got = run_forward(*entry, x);
    EXPECT_TRUE(within(got.out, want.out, bounds.out)) << entry->name << " forward, out";
    if (!got.lse.present()) continue;
    EXPECT_TRUE(within(got.lse, want.lse, bounds.lse)) << entry->name << " forward, lse";
  }
}

void check_case(const Case& c) { check_case(Instance(c, Random(describe(c)))); }

void check_backward(const Instance& x) {
  const Case& c = x.description;
  if (!(c.grad_query || c.grad_key || c.grad_value || c.grad_bias || c.grad_sink)) return;
  SCOPED_TRACE(describe(c) + ", seed " + std::to_string(run_seed()));
  const Forward given = rounded(x, exact_forward(x));
  const Backward want = exact_backward(x, given);
  const BackwardBounds usual = backward_bounds(x, given, want);
  for (const core::ImplementationEntry* entry : able(backward_problem(x, empty_gradients(x)), c)) {
    const bool heads_rounded = entry->id == DHYAN_CUDNN && x.problem.group() > 1;
    const BackwardBounds& bounds = heads_rounded ? backward_bounds(x, given, want, true) : usual;
    const Backward got = run_backward(*entry, x, given);
    const auto check = [&](const char* what, const Array& g, const Array& w, const Bound& bound) {
      if (!w.present()) return;
      EXPECT_TRUE(within(g, w, bound)) << entry->name << " backward, " << what;
    };
    check("grad_query", got.grad_query, want.grad_query, bounds.grad_query);
    check("grad_key", got.grad_key, want.grad_key, bounds.grad_key);
    check("grad_value", got.grad_value, want.grad_value, bounds.grad_value);
    check("grad_bias", got.grad_bias, want.grad_bias, bounds.grad_bias);
    check("grad_sink", got.grad_sink, want.grad_sink, bounds.grad_sink);
  }
}

void check_backward(const Case& c) { check_backward(Instance(c, Random(describe(c)))); }

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

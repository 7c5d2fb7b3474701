// SPDX-License-Identifier: Apache-2.0
// What a call on a GPU costs the host: the codelab's shape (B 4, N 8, H 64, bf16), bursts of calls on an idle stream, the clock
// stopped before the wait. Prints the median over bursts.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "dhyan/dhyan.hpp"

namespace {

constexpr int kBursts = 200;
constexpr int kCalls = 256;
constexpr std::int64_t kBatch = 4, kHeads = 8, kHeadDim = 64;

void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

template <class Call>
double microseconds(cudaStream_t stream, const Call& call) {
  std::vector<double> times;
  for (int burst = 0; burst < kBursts; ++burst) {
    check(cudaStreamSynchronize(stream));
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i) call();
    const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - begin;
    times.push_back(taken.count() / kCalls);
  }
  check(cudaStreamSynchronize(stream));
  std::nth_element(times.begin(), times.begin() + kBursts / 2, times.end());
  return times[kBursts / 2];
}

void measure(std::int64_t length, dhyan::Implementation implementation, const char* name) {
  const std::size_t bytes = static_cast<std::size_t>(kBatch * length * kHeads * kHeadDim) * 2;
  std::byte* memory = nullptr;
  check(cudaMalloc(reinterpret_cast<void**>(&memory), 4 * bytes));
  check(cudaMemset(memory, 0, 4 * bytes));
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const auto view = [&](std::size_t i) {
    const std::array<std::int64_t, 4> shape = {kBatch, length, kHeads, kHeadDim};
    return dhyan::TensorView(memory + i * bytes, dhyan::DType::bf16, shape, {}, dhyan::cuda(0));
  };
  const dhyan::Options options{.implementation = implementation};
  const dhyan::Problem problem{.query = view(0), .key = view(1), .value = view(2), .out = view(3), .options = options};
  const dhyan::Plan plan = dhyan::Plan::forward(problem);
  const dhyan::Buffers buffers(problem);
  const double planned = microseconds(stream, [&] { plan.run(buffers, {}, stream); });
  const double one_shot = microseconds(stream, [&] { dhyan::attention(problem, stream); });
  std::printf("%-6s T %5lld: planned %.2f us, one-shot %.2f us\n", name, static_cast<long long>(length), planned, one_shot);
  check(cudaStreamDestroy(stream));
  check(cudaFree(memory));
}

}  // namespace

int main() {
  try {
    for (const std::int64_t length : {64, 128, 256}) {
      measure(length, dhyan::Implementation::fused, "fused");
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}

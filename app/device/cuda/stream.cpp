// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/stream.hpp"

namespace dhyan::app {
namespace {

Owned<cudaEvent_t> make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "cudaEventCreate");
  return Owned<cudaEvent_t>(event);
}

}  // namespace

Owned<cudaStream_t> make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  return Owned<cudaStream_t>(stream);
}

Interval::Interval() : begin_(make_event()), end_(make_event()) {}

double Interval::microseconds() const {
  check(cudaEventSynchronize(end()), "waiting for the device");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin(), end()), "cudaEventElapsedTime");
  return 1e3 * static_cast<double>(milliseconds);
}

}  // namespace dhyan::app

// SPDX-License-Identifier: Apache-2.0
// Streams and events that end with their owner.
#pragma once

#include <memory>
#include <type_traits>

#include "device/cuda/error.hpp"

namespace dhyan::app {

struct Destroy {
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
  void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
};
template <class Handle>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy>;

// Independent of the default stream.
Owned<cudaStream_t> make_stream();

// A pair of events, and the time between them.
class Interval {
 public:
  Interval();
  cudaEvent_t begin() const { return begin_.get(); }
  cudaEvent_t end() const { return end_.get(); }
  // Waits for the end.
  double microseconds() const;

 private:
  Owned<cudaEvent_t> begin_, end_;
};

}  // namespace dhyan::app

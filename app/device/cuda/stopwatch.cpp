// SPDX-License-Identifier: Apache-2.0
#include "device/stopwatch.hpp"

#include <algorithm>
#include <chrono>

#include "device/cuda/stream.hpp"

namespace dhyan::app {
namespace {

using Clock = std::chrono::steady_clock;
using Launch = std::function<void(void* stream)>;

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// What `record` puts on the stream, as a graph ready to be launched.
Owned<cudaGraphExec_t> captured(cudaStream_t stream, const std::function<void()>& record) {
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capturing a graph");
  cudaGraph_t graph = nullptr;
  try {
    record();
  } catch (...) {
    cudaStreamEndCapture(stream, &graph);  // gives the stream back; its graph is worth nothing
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();
    throw;
  }
  check(cudaStreamEndCapture(stream, &graph), "capturing a graph");
  const Owned<cudaGraph_t> owned(graph);
  cudaGraphExec_t ready = nullptr;
  check(cudaGraphInstantiate(&ready, graph, 0), "cudaGraphInstantiate");
  return Owned<cudaGraphExec_t>(ready);
}

class Stopwatch {
 public:
  Stopwatch(const Launch& launch, Device device, const Repeats& repeats)
      : launch_(launch), device_(device), repeats_(repeats), stream_(make_stream()) {
    for (int i = 0; i < std::max(repeats.warmup, 1); ++i) launch_(stream());
    check(cudaEventRecord(interval_.begin(), stream()), "cudaEventRecord");
    launch_(stream());
    check(cudaEventRecord(interval_.end(), stream()), "cudaEventRecord");
    estimate_us_ = std::max(1.0, interval_.microseconds());
  }

  // Calls one after the other, so that what lies between two launches counts once a call.
  std::vector<double> back_to_back() {
    constexpr double enough_us = 300;
    constexpr int most_calls = 64;
    const int calls = std::clamp(static_cast<int>(enough_us / estimate_us_), 1, most_calls);
    const Owned<cudaGraphExec_t> graph = captured(stream(), [&] {
      for (int i = 0; i < calls; ++i) launch_(stream());
    });
    check(cudaGraphLaunch(graph.get(), stream()), "cudaGraphLaunch");
    return samples([&] {
      check(cudaEventRecord(interval_.begin(), stream()), "cudaEventRecord");
      check(cudaGraphLaunch(graph.get(), stream()), "cudaGraphLaunch");
      check(cudaEventRecord(interval_.end(), stream()), "cudaEventRecord");
      return interval_.microseconds() / calls;
    });
  }

  // One call between two events of the graph itself, behind a write to more memory than the second-level cache holds.
  std::vector<double> flushed() {
    int cache_bytes = 0;
    check(cudaDeviceGetAttribute(&cache_bytes, cudaDevAttrL2CacheSize, device_.index), "cudaDeviceGetAttribute");
    const DeviceMemory other(2 * static_cast<std::size_t>(cache_bytes), device_);
    const Owned<cudaGraphExec_t> graph = captured(stream(), [&] {
      check(cudaMemsetAsync(other.data(), 0, other.size(), stream()), "cudaMemsetAsync");
      check(cudaEventRecordWithFlags(interval_.begin(), stream(), cudaEventRecordExternal), "cudaEventRecord");
      launch_(stream());
      check(cudaEventRecordWithFlags(interval_.end(), stream(), cudaEventRecordExternal), "cudaEventRecord");
    });
    return samples([&] {
      check(cudaGraphLaunch(graph.get(), stream()), "cudaGraphLaunch");
      check(cudaStreamSynchronize(stream()), "waiting for the device");
      return interval_.microseconds();
    });
  }

  // As many calls as the device's queue surely takes, and no more than keep it busy for some hundredths of a second.
  std::vector<double> of_the_host() {
    constexpr double most_us = 2e4;
    constexpr int most_calls = 64;
    const int calls = std::clamp(static_cast<int>(most_us / estimate_us_), 1, most_calls);
    return samples([&] {
      const Clock::time_point start = Clock::now();
      for (int i = 0; i < calls; ++i) launch_(stream());
      const double each = microseconds_since(start) / calls;
      check(cudaStreamSynchronize(stream()), "waiting for the device");
      return each;
    });
  }

 private:
  cudaStream_t stream() const { return stream_.get(); }

  std::vector<double> samples(const std::function<double()>& sample) const {
    const Clock::time_point start = Clock::now();
    std::vector<double> all;
    for (int i = 0; i < repeats_.repeats && (i == 0 || microseconds_since(start) < 1e6 * repeats_.most_seconds); ++i) {
      all.push_back(sample());
    }
    return all;
  }

  const Launch& launch_;
  Device device_;
  const Repeats& repeats_;
  Owned<cudaStream_t> stream_;
  Interval interval_;
  double estimate_us_ = 0;
};

}  // namespace

DeviceTimes time_on_device(const Launch& launch, Device device, const Repeats& repeats, Cache cache) {
  use(device.index);
  Stopwatch stopwatch(launch, device, repeats);
  return {cache == Cache::flushed ? stopwatch.flushed() : stopwatch.back_to_back(), stopwatch.of_the_host()};
}

}  // namespace dhyan::app

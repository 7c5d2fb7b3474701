// SPDX-License-Identifier: Apache-2.0
// Scratch of runs that bring none: a stream-ordered pool per device, the library's own.
#include <cuda_runtime_api.h>

#include <map>
#include <mutex>
#include <string>

#include "core/error.hpp"
#include "cuda/device.hpp"
#include "cuda/runtime/guard.hpp"
#include "cudnn/cudnn.hpp"

namespace dhyan::cuda {
namespace {

// What a pool keeps for the next run; a larger matrix of weights is not worth holding on to.
constexpr std::uint64_t kMaxKeptBytes = std::uint64_t{256} << 20;

// Never destroyed: threads may still run plans while the process ends.
struct Pools {
  std::mutex guard;
  std::map<int, cudaMemPool_t> of_device;
};
Pools& pools() {
  static Pools& all = *new Pools;
  return all;
}

cudaMemPool_t pool_of(int device) {
  const std::scoped_lock lock(pools().guard);
  const auto found = pools().of_device.find(device);
  if (found != pools().of_device.end()) return found->second;
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = device;
  cudaMemPool_t pool;
  check(cudaMemPoolCreate(&pool, &properties), "cudaMemPoolCreate");
  std::uint64_t threshold = kMaxKeptBytes;
  check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold), "cudaMemPoolSetAttribute");
  pools().of_device.emplace(device, pool);
  return pool;
}

}  // namespace

Scratch::Scratch(std::size_t bytes, std::int32_t device, void* stream) : device_(device), stream_(stream) {
  if (bytes == 0) return;
  const DeviceGuard guard(device);
  auto* const on = static_cast<cudaStream_t>(stream);
  cudaStreamCaptureStatus capture;
  check(cudaStreamIsCapturing(on, &capture), "cudaStreamIsCapturing");
  if (capture != cudaStreamCaptureStatusNone) {
    throw core::Error(DHYAN_INVALID_ARGUMENT, "scratch: NULL while the stream is captured, a captured run needs a plan and " +
                                                  std::to_string(bytes) + " bytes of the caller's");
  }
  const std::string action = "scratch: " + std::to_string(bytes) + " bytes on cuda:" + std::to_string(device);
  check(cudaMallocFromPoolAsync(&data_, bytes, pool_of(device), on), action.c_str());
}

void Scratch::release() {
  if (data_ == nullptr) return;
  int former = device_;
  cudaGetDevice(&former);
  if (former != device_) cudaSetDevice(device_);
  if (cudaFreeAsync(data_, static_cast<cudaStream_t>(stream_)) != cudaSuccess) cudaGetLastError();
  if (former != device_) cudaSetDevice(former);
}

void trim() {
  cudnn::trim();
  const std::scoped_lock lock(pools().guard);
  for (const auto& [device, pool] : pools().of_device) {
    if (cudaMemPoolTrimTo(pool, 0) != cudaSuccess) cudaGetLastError();
  }
}

}  // namespace dhyan::cuda

// SPDX-License-Identifier: Apache-2.0
#include "cuda/device.hpp"

#include <cuda_runtime_api.h>

#include <fstream>

#include "core/error.hpp"
#include "cuda/runtime/cublaslt.hpp"
#include "cuda/runtime/guard.hpp"
#include "cuda/runtime/library.hpp"
#include "cudnn/cudnn.hpp"

namespace dhyan::cuda {
namespace {

constexpr int kLeastMajor = 8;  // mma.sync on bf16, cp.async

std::string version_text(int version) { return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10); }

// The newest CUDA that the driver serves; 0: there is no driver.
int driver_version() {
  int version = 0;
  if (cudaDriverGetVersion(&version) != cudaSuccess) cudaGetLastError();
  return version;
}

// "580.65.06, for CUDA 13.0"; its own number only where the kernel's module tells.
std::string driver_text(int version) {
  std::ifstream file("/sys/module/nvidia/version");
  std::string own;
  file >> own;
  return (own.empty() ? "" : own + ", ") + "for CUDA " + version_text(version);
}

int runtime_version() {
  int version = 0;
  if (cudaRuntimeGetVersion(&version) != cudaSuccess) cudaGetLastError();
  return version;
}

struct Found {
  std::vector<Device> devices;
  std::string reason;
};

Found find() {
  int count = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&count); status != cudaSuccess) {
    cudaGetLastError();
    const int driver = driver_version();
    if (driver == 0) return {{}, "no NVIDIA driver was found"};
    if (status == cudaErrorInsufficientDriver) {
      return {{},
              "the NVIDIA driver is too old: it serves CUDA " + version_text(driver) + ", this build needs " +
                  version_text(runtime_version())};
    }
    if (status == cudaErrorNoDevice) return {{}, "the NVIDIA driver finds no GPU that this process may use"};
    return {{}, std::string("the NVIDIA driver answers: ") + cudaGetErrorString(status)};
  }
  Found found;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties;
    check(cudaGetDeviceProperties(&properties, i), "cudaGetDeviceProperties");
    found.devices.push_back({i, properties.name, static_cast<std::int64_t>(properties.totalGlobalMem), properties.major,
                             properties.minor, properties.multiProcessorCount});
  }
  if (count == 0) found.reason = "the NVIDIA driver finds no GPU that this process may use";
  return found;
}

const Found& found() {
  static const Found& once = *new Found(find());
  return once;
}

[[noreturn]] void refuse(const char* name, const std::string& rest) {
  throw core::Error(DHYAN_INVALID_ARGUMENT, std::string(name) + ": " + rest);
}

std::string device_text(int index) { return "cuda:" + std::to_string(index); }

}  // namespace

bool built() { return true; }

const std::string& unavailable() { return found().reason; }

std::span<const Device> devices() { return found().devices; }

std::string refusal(std::int32_t index) {
  if (!unavailable().empty()) return unavailable();
  const auto count = static_cast<std::int32_t>(devices().size());
  if (index < 0 || index >= count) {
    return count == 1 ? "this machine has cuda:0 only" : "this machine has cuda:0 to cuda:" + std::to_string(count - 1);
  }
  const Device& device = devices()[static_cast<std::size_t>(index)];
  if (device.major >= kLeastMajor) return {};
  return device.name + " has compute capability " + std::to_string(device.major) + "." + std::to_string(device.minor) +
         ", dhyan needs " + std::to_string(kLeastMajor) + ".0 or newer";
}

std::vector<Library> libraries() {
  std::vector<Library> all;
  const int driver = driver_version();
  all.push_back({"NVIDIA driver", driver == 0 ? "" : driver_text(driver), "", driver == 0 ? "no NVIDIA driver was found" : ""});
  all.push_back({"CUDA runtime", version_text(runtime_version()), "", ""});  // inside this library: no file of its own
  if (const std::string& missing = cublas_lt_missing(); missing.empty()) {
    all.push_back({"cuBLASLt", cublas_lt_version(), cublas_lt_path(), ""});
  } else {
    all.push_back({"cuBLASLt", "", "", missing});
  }
  all.push_back(cudnn::library());
  all.push_back({"NCCL", "", "", "not used by this version"});
  return all;
}

void check_pointer(const void* pointer, const char* name, std::int32_t device) {
  cudaPointerAttributes attributes;
  check(cudaPointerGetAttributes(&attributes, pointer), "cudaPointerGetAttributes");
  if (attributes.type == cudaMemoryTypeUnregistered || attributes.type == cudaMemoryTypeHost) {
    refuse(name, "a pointer to host memory, the tensor is said to be on " + device_text(device));
  }
  if (attributes.type == cudaMemoryTypeDevice && attributes.device != device) {
    refuse(name,
           "a pointer to memory of " + device_text(attributes.device) + ", the tensor is said to be on " + device_text(device));
  }
}

void check_stream(void* stream, std::int32_t device) {
  if (stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread) return;  // of any device
  int of_stream = device;
  check(cudaStreamGetDevice(static_cast<cudaStream_t>(stream), &of_stream), "cudaStreamGetDevice");
  if (of_stream != device) {
    refuse("stream", "it belongs to " + device_text(of_stream) + ", the tensors are on " + device_text(device));
  }
}

}  // namespace dhyan::cuda

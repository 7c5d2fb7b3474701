// SPDX-License-Identifier: Apache-2.0
#include "device/rates.hpp"

#include <cublasLt.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "device/cuda/stream.hpp"
#include "device/memory.hpp"
#include "measure/statistics.hpp"
#include "problem/random.hpp"

namespace dhyan::app {
namespace {

constexpr int repeats = 20;

double median_us(cudaStream_t stream, const std::function<void()>& work) {
  const Interval interval;
  std::vector<double> all;
  for (int i = 0; i < repeats; ++i) {
    check(cudaEventRecord(interval.begin(), stream), "cudaEventRecord");
    work();
    check(cudaEventRecord(interval.end(), stream), "cudaEventRecord");
    all.push_back(interval.microseconds());
  }
  all.erase(all.begin(), all.begin() + repeats / 4);  // clocks rise
  return statistics_of(all).median;
}

double copy_rate(Device device, cudaStream_t stream) {
  constexpr std::size_t most = std::size_t{1} << 30;
  std::size_t unused = 0, all = 0;
  check(cudaMemGetInfo(&unused, &all), "cudaMemGetInfo");
  const DeviceMemory from(std::min(most, unused / 8), device), to(from.size(), device);
  from.fill(std::byte{1});
  const double us = median_us(stream, [&] {
    check(cudaMemcpyAsync(to.data(), from.data(), to.size(), cudaMemcpyDeviceToDevice, stream), "copying on the device");
  });
  return 2 * static_cast<double>(to.size()) / us / 1e3;
}

// The library that libdhyan found; it is loaded already.
void* open_cublas_lt(std::string& missing) {
  const nlohmann::json machine = nlohmann::json::parse(info());
  for (const auto& library : machine.at("libraries")) {
    if (library.at("name") != "cuBLASLt") continue;
    if (library.at("available").get<bool>()) {
      if (void* handle = dlopen(library.at("path").get<std::string>().c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
      missing = dlerror();
    } else {
      missing = library.at("reason").get<std::string>();
    }
  }
  return nullptr;
}

// bf16 of the standard normal distribution: zeros would draw less power, and so run faster.
DeviceMemory random_matrix(std::int64_t size, std::uint64_t seed, Device device) {
  Random random(seed);
  const Array rows = random_array(Element::bf16, {64, size}, random);
  DeviceMemory matrix(static_cast<std::size_t>(size * size) * 2, device);
  for (std::size_t at = 0; at < matrix.size(); at += rows.data.size()) {
    check(cudaMemcpy(matrix.data() + at, rows.data.data(), rows.data.size(), cudaMemcpyHostToDevice), "copying to the device");
  }
  return matrix;
}

class Matmul {
 public:
  Matmul(void* library, Device device)
      : library_(library), a_(random_matrix(size, 1, device)), b_(random_matrix(size, 2, device)) {
    c_ = DeviceMemory(a_.size(), device);
    workspace_ = DeviceMemory(std::size_t{64} << 20, device);
    check(call<decltype(&cublasLtCreate)>("cublasLtCreate")(&handle_));
    check(call<decltype(&cublasLtMatmulDescCreate)>("cublasLtMatmulDescCreate")(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    check(call<decltype(&cublasLtMatrixLayoutCreate)>("cublasLtMatrixLayoutCreate")(&layout_, CUDA_R_16BF, size, size, size));
    choose();
  }
  ~Matmul() {
    call<decltype(&cublasLtMatrixLayoutDestroy)>("cublasLtMatrixLayoutDestroy")(layout_);
    call<decltype(&cublasLtMatmulDescDestroy)>("cublasLtMatmulDescDestroy")(operation_);
    call<decltype(&cublasLtDestroy)>("cublasLtDestroy")(handle_);
  }
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;

  double tflops(cudaStream_t stream) {
    const auto matmul = call<decltype(&cublasLtMatmul)>("cublasLtMatmul");
    const float one = 1, zero = 0;
    const double us = median_us(stream, [&] {
      check(matmul(handle_, operation_, &one, a_.data(), layout_, b_.data(), layout_, &zero, c_.data(), layout_, c_.data(),
                   layout_, &algorithm_, workspace_.data(), workspace_.size(), stream));
    });
    constexpr double edge = size;
    return 2 * edge * edge * edge / us / 1e6;
  }

 private:
  static constexpr std::int64_t size = 8192;

  template <class Function>
  Function call(const char* name) const {
    const auto function = reinterpret_cast<Function>(dlsym(library_, name));
    if (function == nullptr) throw Error(Status::device_error, fmt::format("cuBLASLt has no function {}", name));
    return function;
  }

  static void check(cublasStatus_t status) {
    if (status != CUBLAS_STATUS_SUCCESS) {
      throw Error(Status::device_error, fmt::format("cuBLASLt answers status {}", static_cast<int>(status)));
    }
  }

  // Its own first choice for the sizes.
  void choose() {
    cublasLtMatmulPreference_t preference = nullptr;
    check(call<decltype(&cublasLtMatmulPreferenceCreate)>("cublasLtMatmulPreferenceCreate")(&preference));
    const std::size_t bytes = workspace_.size();
    check(call<decltype(&cublasLtMatmulPreferenceSetAttribute)>("cublasLtMatmulPreferenceSetAttribute")(
        preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes));
    cublasLtMatmulHeuristicResult_t result{};
    int found = 0;
    check(call<decltype(&cublasLtMatmulAlgoGetHeuristic)>("cublasLtMatmulAlgoGetHeuristic")(
        handle_, operation_, layout_, layout_, layout_, layout_, preference, 1, &result, &found));
    call<decltype(&cublasLtMatmulPreferenceDestroy)>("cublasLtMatmulPreferenceDestroy")(preference);
    if (found == 0) throw Error(Status::device_error, "cuBLASLt has no bf16 matmul for this device");
    algorithm_ = result.algo;
  }

  void* library_;
  DeviceMemory a_, b_, c_, workspace_;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t layout_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_{};
};

}  // namespace

DeviceRates measure_rates(Device device) {
  use(device.index);
  const Owned<cudaStream_t> stream = make_stream();
  DeviceRates rates;
  rates.copy_gb_per_s = copy_rate(device, stream.get());
  if (void* library = open_cublas_lt(rates.matmul_missing)) {
    rates.matmul_tflops = Matmul(library, device).tflops(stream.get());
    dlclose(library);
  }
  return rates;
}

}  // namespace dhyan::app

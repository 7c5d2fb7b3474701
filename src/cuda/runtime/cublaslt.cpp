// SPDX-License-Identifier: Apache-2.0
#include "cuda/runtime/cublaslt.hpp"

#include <map>
#include <mutex>

#include "core/error.hpp"
#include "core/loaded_file.hpp"
#include "cuda/runtime/library.hpp"

namespace dhyan::cuda {
namespace {

constexpr const char* kSoname = "libcublasLt.so.13";

struct Loaded {
  CublasLt functions{};
  std::string path, reason;
};

Loaded load() {
  Loaded loaded;
  const OpenLibrary library = open_library(kSoname);
  if (library.handle == nullptr) {
    loaded.reason = library.reason;
    return loaded;
  }
  const auto take = [&](auto& function, const char* name) {
    void* symbol = find_symbol(library.handle, name);
    if (symbol == nullptr && loaded.reason.empty()) loaded.reason = std::string(kSoname) + " has no function " + name;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(symbol);
  };
  CublasLt& f = loaded.functions;
  take(f.create, "cublasLtCreate");
  take(f.version, "cublasLtGetVersion");
  take(f.status_text, "cublasLtGetStatusString");
  take(f.matmul, "cublasLtMatmul");
  take(f.heuristic, "cublasLtMatmulAlgoGetHeuristic");
  take(f.operation_create, "cublasLtMatmulDescCreate");
  take(f.operation_destroy, "cublasLtMatmulDescDestroy");
  take(f.operation_set, "cublasLtMatmulDescSetAttribute");
  take(f.layout_create, "cublasLtMatrixLayoutCreate");
  take(f.layout_destroy, "cublasLtMatrixLayoutDestroy");
  take(f.layout_set, "cublasLtMatrixLayoutSetAttribute");
  take(f.preference_create, "cublasLtMatmulPreferenceCreate");
  take(f.preference_destroy, "cublasLtMatmulPreferenceDestroy");
  take(f.preference_set, "cublasLtMatmulPreferenceSetAttribute");
  loaded.path = core::loaded_file_of(reinterpret_cast<const void*>(f.matmul));
  return loaded;
}

const Loaded& loaded() {
  static const Loaded& once = *new Loaded(load());
  return once;
}

}  // namespace

const std::string& cublas_lt_missing() { return loaded().reason; }

const CublasLt& cublas_lt() {
  if (!loaded().reason.empty()) throw core::Error(DHYAN_UNSUPPORTED, "cuBLASLt: " + loaded().reason);
  return loaded().functions;
}

std::string cublas_lt_version() {
  const std::size_t version = cublas_lt().version();
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." + std::to_string(version % 100);
}

std::string cublas_lt_path() { return loaded().path; }

cublasLtHandle_t cublas_lt_handle(int device) {
  static std::mutex& guard = *new std::mutex;
  static auto& handles = *new std::map<int, cublasLtHandle_t>;
  const std::scoped_lock lock(guard);
  const auto found = handles.find(device);
  if (found != handles.end()) return found->second;
  cublasLtHandle_t handle;
  check(cublas_lt().create(&handle), "cublasLtCreate");
  handles.emplace(device, handle);
  return handle;
}

void check(cublasStatus_t status, const char* action) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw core::Error(status == CUBLAS_STATUS_ALLOC_FAILED ? DHYAN_OUT_OF_MEMORY : DHYAN_DEVICE_ERROR,
                    std::string(action) + ": " + cublas_lt().status_text(status));
}

}  // namespace dhyan::cuda

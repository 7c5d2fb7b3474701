// SPDX-License-Identifier: Apache-2.0
#include "cudnn/library.hpp"

#include <cuda_runtime_api.h>

#include <map>
#include <mutex>
#include <type_traits>
#include <vector>

#include "core/error.hpp"
#include "core/loaded_file.hpp"
#include "cuda/runtime/library.hpp"

namespace dhyan::cudnn {
namespace {

constexpr const char* kSoname = "libcudnn.so.9";

struct Loaded {
  Functions functions{};
  std::size_t version = 0;
  std::string path, reason;
};

Loaded load() {
  Loaded loaded;
  const cuda::OpenLibrary library = cuda::open_library(kSoname);
  if (library.handle == nullptr) {
    loaded.reason = library.reason;
    return loaded;
  }
  const auto take = [&](auto& function, const char* name) {
    void* symbol = cuda::find_symbol(library.handle, name);
    if (symbol == nullptr && loaded.reason.empty()) loaded.reason = std::string(kSoname) + " has no function " + name;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(symbol);
  };
  Functions& f = loaded.functions;
  take(f.version, "cudnnGetVersion");
  take(f.error_text, "cudnnGetErrorString");
  take(f.last_error_text, "cudnnGetLastErrorString");
  take(f.create, "cudnnCreate");
  take(f.set_stream, "cudnnSetStream");
  take(f.get_stream, "cudnnGetStream");
  take(f.create_descriptor, "cudnnBackendCreateDescriptor");
  take(f.destroy_descriptor, "cudnnBackendDestroyDescriptor");
  take(f.initialize, "cudnnBackendInitialize");
  take(f.finalize, "cudnnBackendFinalize");
  take(f.set_attribute, "cudnnBackendSetAttribute");
  take(f.get_attribute, "cudnnBackendGetAttribute");
  take(f.execute, "cudnnBackendExecute");
  if (!loaded.reason.empty()) return loaded;
  loaded.version = f.version();
  loaded.path = core::loaded_file_of(reinterpret_cast<const void*>(f.version));
  return loaded;
}

const Loaded& loaded() {
  static const Loaded& once = *new Loaded(load());
  return once;
}

void check(cudnnStatus_t status, const char* action) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw core::Error(status == CUDNN_STATUS_ALLOC_FAILED ? DHYAN_OUT_OF_MEMORY : DHYAN_DEVICE_ERROR,
                    std::string(action).append(": ").append(functions().error_text(status)));
}

// Never destroyed: threads may still run plans while the process ends.
struct Handles {
  std::mutex guard;
  std::map<int, std::vector<cudnnHandle_t>> free_of_device;
};
Handles& handles() {
  static Handles& all = *new Handles;
  return all;
}

// Making one allocates, which a stream that is being captured elsewhere would forbid this thread.
class RelaxedCapture {
 public:
  RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace

const std::string& missing() { return loaded().reason; }
const Functions& functions() { return loaded().functions; }
std::size_t version() { return loaded().version; }
std::string path() { return loaded().path; }

Handle::Handle(int device, void* stream) : device_(device) {
  {
    const std::scoped_lock lock(handles().guard);
    std::vector<cudnnHandle_t>& free = handles().free_of_device[device];
    if (!free.empty()) {
      handle_ = free.back();
      free.pop_back();
    }
  }
  if (handle_ == nullptr) {
    const RelaxedCapture relaxed;
    check(functions().create(&handle_), "cudnnCreate");
  }
  check(functions().set_stream(handle_, static_cast<cudaStream_t>(stream)), "cudnnSetStream");
}

Handle::~Handle() {
  const std::scoped_lock lock(handles().guard);
  handles().free_of_device[device_].push_back(handle_);
}

}  // namespace dhyan::cudnn

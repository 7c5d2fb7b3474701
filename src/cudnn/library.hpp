// SPDX-License-Identifier: Apache-2.0
// cuDNN, opened at run time, and handles of it.
#pragma once

#include <cudnn.h>

#include <cstddef>
#include <string>

namespace dhyan::cudnn {

// The functions that cudnn-frontend and this library call; the header's own types.
struct Functions {
  decltype(&cudnnGetVersion) version;
  decltype(&cudnnGetErrorString) error_text;
  decltype(&cudnnGetLastErrorString) last_error_text;
  decltype(&cudnnCreate) create;
  decltype(&cudnnSetStream) set_stream;
  decltype(&cudnnGetStream) get_stream;
  decltype(&cudnnBackendCreateDescriptor) create_descriptor;
  decltype(&cudnnBackendDestroyDescriptor) destroy_descriptor;
  decltype(&cudnnBackendInitialize) initialize;
  decltype(&cudnnBackendFinalize) finalize;
  decltype(&cudnnBackendSetAttribute) set_attribute;
  decltype(&cudnnBackendGetAttribute) get_attribute;
  decltype(&cudnnBackendExecute) execute;
};

// Why there is none; empty when there is.
const std::string& missing();
// Not to be called when it is missing.
const Functions& functions();
std::size_t version();  // 91900
std::string path();

// A handle lent for one call: cuDNN allows no two threads in one handle. The device must be current.
class Handle {
 public:
  Handle(int device, void* stream);
  ~Handle();
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  cudnnHandle_t get() const { return handle_; }

 private:
  int device_;
  cudnnHandle_t handle_ = nullptr;
};

}  // namespace dhyan::cudnn

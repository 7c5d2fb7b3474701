// SPDX-License-Identifier: Apache-2.0
// cudnn-frontend calls cuDNN by name; these names, hidden inside this library, lead to the cuDNN that was opened at run time.
// Its own way of loading would also look for a shared CUDA runtime, which this library does not need.
#include <nvrtc.h>

#include "cudnn/library.hpp"

using dhyan::cudnn::functions;

extern "C" {

std::size_t cudnnGetVersion() { return functions().version(); }
const char* cudnnGetErrorString(cudnnStatus_t status) { return functions().error_text(status); }
void cudnnGetLastErrorString(char* message, std::size_t size) { functions().last_error_text(message, size); }
cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) { return functions().get_stream(handle, stream); }

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor) {
  return functions().create_descriptor(type, descriptor);
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  return functions().destroy_descriptor(descriptor);
}
cudnnStatus_t cudnnBackendInitialize(cudnnBackendDescriptor_t descriptor) { return functions().initialize(descriptor); }
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) { return functions().finalize(descriptor); }
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count, const void* elements) {
  return functions().set_attribute(descriptor, name, type, count, elements);
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t asked, std::int64_t* count,
                                       void* elements) {
  return functions().get_attribute(descriptor, name, type, asked, count, elements);
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
  return functions().execute(handle, plan, pack);
}

// For kernels of cudnn-frontend's own, which attention graphs do not ask for.
nvrtcResult nvrtcCreateProgram(nvrtcProgram*, const char*, const char*, int, const char* const*, const char* const*) {
  return NVRTC_ERROR_INTERNAL_ERROR;
}
nvrtcResult nvrtcDestroyProgram(nvrtcProgram*) { return NVRTC_ERROR_INTERNAL_ERROR; }
nvrtcResult nvrtcCompileProgram(nvrtcProgram, int, const char* const*) { return NVRTC_ERROR_INTERNAL_ERROR; }
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram, std::size_t*) { return NVRTC_ERROR_INTERNAL_ERROR; }
nvrtcResult nvrtcGetCUBIN(nvrtcProgram, char*) { return NVRTC_ERROR_INTERNAL_ERROR; }
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram, std::size_t*) { return NVRTC_ERROR_INTERNAL_ERROR; }
nvrtcResult nvrtcGetProgramLog(nvrtcProgram, char*) { return NVRTC_ERROR_INTERNAL_ERROR; }

}  // extern "C"

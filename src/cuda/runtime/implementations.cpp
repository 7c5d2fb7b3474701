// SPDX-License-Identifier: Apache-2.0
// What each implementation is on a CUDA device.
#include "cuda/device.hpp"
#include "cuda/naive/naive.hpp"

namespace dhyan::cuda {
namespace {

std::string host_only(const dhyan_device_description&) {
  return "it computes in host memory; copy the tensors there and name device cpu";
}
std::string without_kernels(const dhyan_device_description&) { return "it has no kernels for CUDA devices yet"; }
std::string not_built(const dhyan_device_description&) { return "this version does not use cuDNN yet"; }

constexpr core::ImplementationEntry kReference = {DHYAN_REFERENCE, "reference", DHYAN_CUDA, host_only, nullptr, nullptr};

constexpr core::ImplementationEntry kFused = {DHYAN_FUSED, "fused", DHYAN_CUDA, without_kernels, nullptr, nullptr};
constexpr core::ImplementationEntry kCudnn = {DHYAN_CUDNN, "cudnn", DHYAN_CUDA, not_built, nullptr, nullptr};

constexpr const core::ImplementationEntry* kRows[] = {&kReference, &naive_entry, &kFused, &kCudnn};

}  // namespace

std::span<const core::ImplementationEntry* const> implementations() { return kRows; }

}  // namespace dhyan::cuda

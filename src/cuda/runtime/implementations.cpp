// SPDX-License-Identifier: Apache-2.0
// What each implementation is on a CUDA device.
#include "cuda/device.hpp"
#include "cuda/naive/naive.hpp"
#include "cuda/portable/fused.hpp"
#include "cudnn/cudnn.hpp"

namespace dhyan::cuda {
namespace {

std::string host_only(const dhyan_device_description&) {
  return "it computes in host memory; copy the tensors there and name device cpu";
}

constexpr core::ImplementationEntry kReference = {DHYAN_REFERENCE, "reference", DHYAN_CUDA, host_only, nullptr, nullptr};

constexpr const core::ImplementationEntry* kRows[] = {&kReference, &naive_entry, &fused_entry, &cudnn::entry};

}  // namespace

std::span<const core::ImplementationEntry* const> implementations() { return kRows; }

}  // namespace dhyan::cuda

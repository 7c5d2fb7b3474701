// SPDX-License-Identifier: Apache-2.0
#include <iterator>
#include <vector>

#include "api/choose.hpp"
#include "cpu/fused.hpp"
#include "cpu/naive.hpp"
#include "cuda/device.hpp"
#include "reference/reference.hpp"

namespace dhyan::api {
namespace {

std::string needs_nvidia(const dhyan_device_description&) { return "it needs an NVIDIA GPU"; }

constexpr core::ImplementationEntry kCudnnOnCpu = {DHYAN_CUDNN, "cudnn", DHYAN_CPU, needs_nvidia, nullptr, nullptr};

// Every implementation has a row for every kind of device that this build knows.
constexpr const core::ImplementationEntry* kOnCpu[] = {
    &reference::entry,
    &cpu::naive_entry,
    &cpu::fused_entry,
    &kCudnnOnCpu,
};

}  // namespace

std::span<const core::ImplementationEntry* const> implementations() {
  static const std::vector<const core::ImplementationEntry*> all = [] {
    std::vector<const core::ImplementationEntry*> rows(std::begin(kOnCpu), std::end(kOnCpu));
    rows.insert(rows.end(), cuda::implementations().begin(), cuda::implementations().end());
    return rows;
  }();
  return all;
}

}  // namespace dhyan::api

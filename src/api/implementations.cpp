// SPDX-License-Identifier: Apache-2.0
#include "api/choose.hpp"
#include "cpu/fused.hpp"
#include "reference/reference.hpp"

namespace dhyan::api {
namespace {

std::string needs_nvidia(const dhyan_device_description&) { return "it needs an NVIDIA GPU"; }

std::string not_built(const dhyan_device_description&) { return "this build does not have it"; }

constexpr core::ImplementationEntry kNaive = {DHYAN_NAIVE, "naive", DHYAN_CPU, not_built, nullptr, nullptr};
constexpr core::ImplementationEntry kCudnnOnCpu = {DHYAN_CUDNN, "cudnn", DHYAN_CPU, needs_nvidia, nullptr, nullptr};

// Every implementation has a row for every kind of device.
constexpr const core::ImplementationEntry* kImplementations[] = {
    &reference::entry,
    &kNaive,
    &cpu::fused_entry,
    &kCudnnOnCpu,
};

}  // namespace

std::span<const core::ImplementationEntry* const> implementations() { return kImplementations; }

}  // namespace dhyan::api

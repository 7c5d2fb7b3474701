// SPDX-License-Identifier: Apache-2.0
#include "api/choose.hpp"
#include "cpu/fused.hpp"
#include "cpu/naive.hpp"
#include "reference/reference.hpp"

namespace dhyan::api {
namespace {

std::string needs_nvidia(const dhyan_device_description&) { return "it needs an NVIDIA GPU"; }

constexpr core::ImplementationEntry kCudnnOnCpu = {DHYAN_CUDNN, "cudnn", DHYAN_CPU, needs_nvidia, nullptr, nullptr};

// Every implementation has a row for every kind of device.
constexpr const core::ImplementationEntry* kImplementations[] = {
    &reference::entry,
    &cpu::naive_entry,
    &cpu::fused_entry,
    &kCudnnOnCpu,
};

}  // namespace

std::span<const core::ImplementationEntry* const> implementations() { return kImplementations; }

}  // namespace dhyan::api

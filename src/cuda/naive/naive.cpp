// SPDX-License-Identifier: Apache-2.0
#include "cuda/naive/naive.hpp"

#include <cstdio>
#include <limits>
#include <optional>

#include "cuda/device.hpp"
#include "cuda/naive/passes.hpp"
#include "cuda/runtime/cublaslt.hpp"

namespace dhyan::cuda {
namespace {

constexpr double kShare = 0.8;  // of the device's memory

std::string unavailable(const dhyan_device_description& device) {
  const std::string reason = refusal(device.device_index);
  return reason.empty() ? cublas_lt_missing() : reason;
}

std::optional<std::string> refuse(const core::Problem& p, const dhyan_device_description& device) {
  constexpr std::int64_t longest = std::numeric_limits<std::int32_t>::max();
  if (p.group() * p.query_length > longest || p.key_length > longest) {
    return "naive takes at most 2147483647 keys and queries of all heads that share a key head";
  }
  const bool forward = p.direction == DHYAN_FORWARD;
  const naive::Need need = forward ? naive::forward_need(p) : naive::backward_need(p);
  if (need.matrices + need.copies > kShare * static_cast<double>(device.memory_bytes)) {
    char sentence[256];
    std::snprintf(sentence, sizeof sentence,
                  "naive needs %.0f bytes of scratch, %.0f of them for its %s; that is more than 80 %% of the device's %lld",
                  need.matrices + need.copies, need.matrices,
                  forward ? "matrix of scores" : "matrices of scores and their gradients",
                  static_cast<long long>(device.memory_bytes));
    return sentence;
  }
  return std::nullopt;
}

std::unique_ptr<core::Executable> plan(const core::Problem& p, const dhyan_device_description&) {
  return p.direction == DHYAN_FORWARD ? naive::plan_forward(p) : naive::plan_backward(p);
}

}  // namespace

const core::ImplementationEntry naive_entry{DHYAN_NAIVE, "naive", DHYAN_CUDA, unavailable, refuse, plan};

}  // namespace dhyan::cuda

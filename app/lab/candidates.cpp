// SPDX-License-Identifier: Apache-2.0
#include "lab/candidates.hpp"

#include <fmt/format.h>

#include <memory>

#include "dhyan/nn.hpp"

namespace dhyan::lab {
namespace {

nn::DotProductAttention module_for(const app::Call& call) {
  const auto& shape = call.query.shape;
  return nn::DotProductAttention(
      {.head_dim = shape[3],
       .num_attention_heads = shape[2],
       .num_gqa_groups = call.key.shape[2],
       .attn_mask_type = call.causal == Causal::off ? nn::AttnMaskType::no_mask : nn::AttnMaskType::causal,
       .transpose_batch_sequence = false});
}

}  // namespace

std::optional<std::string> refusal(const Candidate& candidate, const app::Call& call, Device device) {
  if (auto reason = unavailable(candidate.implementation, device)) return reason;
  try {
    const app::Outputs outputs = make_outputs(call);
    const Plan plan = Plan::forward(forward_problem(call, outputs, candidate.implementation));
    const auto scratch = static_cast<double>(plan.scratch_bytes());
    const auto memory = static_cast<double>(describe(device).memory_bytes);
    if (scratch > memory / 2) {
      return fmt::format("it needs {:.1f} GiB of working memory, more than half of this machine's {:.1f} GiB",
                         scratch / (1 << 30), memory / (1 << 30));
    }
  } catch (const Error& error) {
    if (error.status() != Status::unsupported) throw;
    return error.what();
  }
  return std::nullopt;
}

Prepared prepare(const Candidate& candidate, const app::Call& call, const app::Outputs& outputs) {
  if (candidate.module) {
    return {[module = module_for(call), &call, &outputs, device = call.device] {
      module(call.query.view(device), call.key.view(device), call.value.view(device), outputs.out.view(device));
      app::wait_for(device);
    }};
  }
  const auto runner = std::make_shared<app::Runner>(forward_problem(call, outputs, candidate.implementation), false);
  return {[runner] { runner->run(); }, [runner](void* stream) { runner->launch(stream); }};
}

app::Outputs attend(const app::Call& call, Implementation implementation) {
  app::Outputs outputs = make_outputs(call);
  poison(outputs);
  app::compute(forward_problem(call, outputs, implementation), false);
  fetch(outputs);
  return outputs;
}

report::Series series_of(const Candidate& candidate) {
  return {.key = std::string(candidate.key),
          .label = std::string(candidate.label),
          .colour = std::string(candidate.colour),
          .marker = candidate.marker,
          .points = {}};
}

}  // namespace dhyan::lab

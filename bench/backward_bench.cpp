// SPDX-License-Identifier: Apache-2.0
// The fused backward pass on the shapes that peers are timed on, with shared keys, and with the gradient of a bias.
#include <benchmark/benchmark.h>

#include "cpu/fused.hpp"
#include "tensors.hpp"

namespace dhyan::bench {
namespace {

enum class Bias { none, whole, shared_by_heads };

void backward(benchmark::State& state, const Shape& s, dhyan_dtype dtype, bool causal, Bias bias) {
  core::Problem p = problem_of(s, dtype, causal);
  p.lse = {DHYAN_F32, {s.query_heads * s.queries, s.queries, 1, 0}, 16};
  if (bias != Bias::none) {
    const bool heads = bias == Bias::whole;
    p.bias_shape = {s.batch, heads ? s.query_heads : 1, s.queries, s.keys};
    p.bias = {DHYAN_F32, {p.bias_shape[1] * s.queries * s.keys, heads ? s.queries * s.keys : 0, s.keys, 1}, 16};
  }
  const std::int64_t queries = s.batch * s.queries * s.query_heads * s.head_dim;
  const std::int64_t keys = s.batch * s.keys * s.key_heads * s.head_dim;
  const std::int64_t biases = bias == Bias::none ? 0 : s.batch * p.bias.strides[0];
  const Memory query = random_tensor(dtype, queries), key = random_tensor(dtype, keys), value = random_tensor(dtype, keys);
  const Memory out = random_tensor(dtype, queries), grad_out = random_tensor(dtype, queries);
  const Memory grad_query = random_tensor(dtype, queries);
  const Memory grad_key = random_tensor(dtype, keys), grad_value = random_tensor(dtype, keys);
  const Memory lse = memory(sizeof(float) * static_cast<std::size_t>(s.batch * s.query_heads * s.queries));
  const Memory bias_data = random_tensor(DHYAN_F32, biases), grad_bias = random_tensor(DHYAN_F32, biases);
  core::Buffers buffers{};
  buffers.query = query.get();
  buffers.key = key.get();
  buffers.value = value.get();
  buffers.out = out.get();
  buffers.lse = lse.get();
  buffers.bias = bias == Bias::none ? nullptr : bias_data.get();

  const auto forward = cpu::plan_fused_forward(p, {});
  forward->run(buffers, memory(forward->scratch_bytes()).get(), nullptr);

  p.direction = DHYAN_BACKWARD;
  p.grad_out = p.grad_query = p.query;
  p.grad_key = p.grad_value = p.key;
  p.grad_bias = p.bias;
  buffers.grad_out = grad_out.get();
  buffers.grad_query = grad_query.get();
  buffers.grad_key = grad_key.get();
  buffers.grad_value = grad_value.get();
  buffers.grad_bias = grad_bias.get();
  const auto plan = cpu::plan_fused_backward(p, {});
  const Memory scratch = memory(plan->scratch_bytes());
  for (auto _ : state) plan->run(buffers, scratch.get(), nullptr);
  state.counters["GFLOP/s"] =
      benchmark::Counter(2.5e-9 * operations_of(s, causal), benchmark::Counter::kIsIterationInvariantRate);
  state.counters["scratch_MiB"] = static_cast<double>(plan->scratch_bytes()) / 1048576;
  state.SetLabel(plan->describe());
}

const bool registered = [] {
  constexpr Shape kGrouped = {1, 2048, 2048, 8, 2, 64};
  constexpr Shape kBiased = {2, 512, 512, 8, 8, 64};
  for (const dhyan_dtype dtype : {DHYAN_F32, DHYAN_BF16, DHYAN_F16}) {
    const auto add = [&](const std::string& suffix, const Shape& s, bool causal, Bias bias) {
      benchmark::RegisterBenchmark((name_of("backward", s, dtype, causal) + suffix).c_str(), [=](benchmark::State& state) {
        backward(state, s, dtype, causal, bias);
      })->UseRealTime();
    };
    for (const bool causal : {false, true}) {
      for (const Shape& s : kPeerShapes) add("", s, causal, Bias::none);
      add("", kGrouped, causal, Bias::none);
    }
    add("", kBiased, false, Bias::none);
    add("/bias", kBiased, false, Bias::whole);
    add("/bias_of_heads", kBiased, false, Bias::shared_by_heads);
  }
  return true;
}();

}  // namespace
}  // namespace dhyan::bench

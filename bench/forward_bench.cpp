// SPDX-License-Identifier: Apache-2.0
// The fused forward pass on the shapes that peers are timed on.
#include <benchmark/benchmark.h>

#include "cpu/fused.hpp"
#include "tensors.hpp"

namespace dhyan::bench {
namespace {

void forward(benchmark::State& state, const Shape& s, dhyan_dtype dtype, bool causal) {
  const core::Problem p = problem_of(s, dtype, causal);
  const Memory query = random_tensor(dtype, s.batch * s.queries * s.query_heads * s.head_dim);
  const Memory key = random_tensor(dtype, s.batch * s.keys * s.key_heads * s.head_dim);
  const Memory value = random_tensor(dtype, s.batch * s.keys * s.key_heads * s.head_dim);
  const Memory out = random_tensor(dtype, s.batch * s.queries * s.query_heads * s.head_dim);
  core::Buffers buffers{};
  buffers.query = query.get();
  buffers.key = key.get();
  buffers.value = value.get();
  buffers.out = out.get();

  const auto plan = cpu::plan_fused_forward(p, {});
  const Memory scratch = memory(plan->scratch_bytes());
  for (auto _ : state) plan->run(buffers, scratch.get(), nullptr);
  const double bytes =
      2.0 * static_cast<double>(s.batch * s.keys * s.key_heads * s.head_dim) * static_cast<double>(core::size_of(dtype));
  state.counters["GFLOP/s"] =
      benchmark::Counter(operations_of(s, causal) * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["KV_GB/s"] = benchmark::Counter(bytes * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
  state.SetLabel(plan->describe());
}

// A plain read of the bytes that one-query decode reads, by as many threads: what it can at best reach.
void plain_read(benchmark::State& state) {
  const std::int64_t bytes = state.range(0);
  const Memory data = random_tensor(DHYAN_F32, bytes / 4);
  const int threads = core::hardware_threads();
  const std::int64_t part = bytes / 4 / threads / 64 * 64;
  for (auto _ : state) {
    core::parallel_for(threads, threads, [&](std::int64_t task, int) {
      const float* from = static_cast<const float*>(data.get()) + task * part;
      using Vector [[gnu::vector_size(64), gnu::aligned(4)]] = float;
      Vector sum[4] = {};
      for (std::int64_t i = 0; i < part; i += 64) {
        for (int j = 0; j < 4; ++j) sum[j] += *reinterpret_cast<const Vector*>(from + i + 16 * j);
      }
      Vector all = sum[0] + sum[1] + sum[2] + sum[3];
      float total = 0;
      for (int j = 0; j < 16; ++j) total += all[j];
      benchmark::DoNotOptimize(total);
    });
  }
  state.counters["GB/s"] = benchmark::Counter(static_cast<double>(bytes) * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

const bool registered = [] {
  constexpr Shape kDecode = {1, 1, 16384, 32, 8, 128};
  constexpr Shape kSmall = {1, 1, 1, 1, 1, 16};
  for (const dhyan_dtype dtype : {DHYAN_F32, DHYAN_BF16, DHYAN_F16}) {
    const auto add = [&](const Shape& s, bool causal) {
      benchmark::RegisterBenchmark(name_of("forward", s, dtype, causal).c_str(), [=](benchmark::State& state) {
        forward(state, s, dtype, causal);
      })->UseRealTime();
    };
    for (const Shape& s : kPeerShapes) {
      add(s, false);
      add(s, true);
    }
    add(kDecode, false);
    add(kSmall, false);
  }
  benchmark::RegisterBenchmark("plain_read", plain_read)->UseRealTime()->Arg(134217728)->Arg(67108864);
  return true;
}();

}  // namespace
}  // namespace dhyan::bench

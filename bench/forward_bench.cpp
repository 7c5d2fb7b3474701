// SPDX-License-Identifier: Apache-2.0
// The fused forward pass on the shapes that peers are timed on.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/convert.hpp"
#include "core/parallel.hpp"
#include "cpu/fused.hpp"

namespace dhyan {
namespace {

struct Shape {
  std::int64_t batch, queries, keys, query_heads, key_heads, head_dim;
};

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<void, Free>;

Memory memory(std::size_t bytes) {
  void* pages = nullptr;
  if (posix_memalign(&pages, 4096, std::max<std::size_t>(bytes, 64)) != 0) throw std::bad_alloc();
  return Memory(pages);
}

Memory random_tensor(dhyan_dtype dtype, std::int64_t count) {
  static std::mt19937_64 generator(std::random_device{}());
  std::normal_distribution<double> normal;
  Memory tensor = memory(static_cast<std::size_t>(count) * core::size_of(dtype));
  for (std::int64_t i = 0; i < count; ++i) core::store(tensor.get(), dtype, i, normal(generator));
  return tensor;
}

core::Operand rows(dhyan_dtype dtype, std::int64_t tokens, std::int64_t heads, std::int64_t width) {
  return {dtype, {tokens * heads * width, heads * width, width, 0}, 16};
}

void forward(benchmark::State& state, const Shape& s, dhyan_dtype dtype, bool causal) {
  core::Problem p;
  p.dtype = dtype;
  p.batch = s.batch;
  p.query_length = p.query_tokens = s.queries;
  p.key_length = p.key_tokens = s.keys;
  p.query_heads = s.query_heads;
  p.key_heads = s.key_heads;
  p.head_dim = p.value_head_dim = s.head_dim;
  p.scale = 1 / std::sqrt(static_cast<double>(s.head_dim));
  p.causal = causal ? DHYAN_CAUSAL_TOP_LEFT : DHYAN_CAUSAL_OFF;
  p.threads = core::hardware_threads();
  p.query = p.out = rows(dtype, s.queries, s.query_heads, s.head_dim);
  p.key = p.value = rows(dtype, s.keys, s.key_heads, s.head_dim);

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
  const double operations = 4.0 * static_cast<double>(s.batch * s.query_heads) * static_cast<double>(s.queries) *
                            static_cast<double>(s.keys) * static_cast<double>(s.head_dim) * (causal ? 0.5 : 1);
  const double bytes =
      2.0 * static_cast<double>(s.batch * s.keys * s.key_heads * s.head_dim) * static_cast<double>(core::size_of(dtype));
  state.counters["GFLOP/s"] = benchmark::Counter(operations * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
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
      typedef float Vector __attribute__((vector_size(64), aligned(4)));
      Vector sum[4] = {};
      for (std::int64_t i = 0; i < part; i += 64) {
        for (int j = 0; j < 4; ++j) sum[j] += *reinterpret_cast<const Vector*>(from + i + 16 * j);
      }
      Vector all = sum[0] + sum[1] + sum[2] + sum[3];
      benchmark::DoNotOptimize(all);
    });
  }
  state.counters["GB/s"] = benchmark::Counter(static_cast<double>(bytes) * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

std::string name_of(const Shape& s, dhyan_dtype dtype, bool causal) {
  return std::string("forward/") + core::name_of(dtype) + "/B" + std::to_string(s.batch) + "_T" + std::to_string(s.queries) +
         "_S" + std::to_string(s.keys) + "_N" + std::to_string(s.query_heads) + "_K" + std::to_string(s.key_heads) + "_H" +
         std::to_string(s.head_dim) + (causal ? "/causal" : "/full");
}

const bool registered = [] {
  constexpr Shape kPeers[] = {{4, 128, 128, 8, 8, 64},   {1, 512, 512, 8, 8, 64},   {1, 1024, 1024, 8, 8, 64},
                              {1, 2048, 2048, 8, 8, 64}, {1, 4096, 4096, 4, 4, 64}, {1, 2048, 2048, 4, 4, 128},
                              {16, 256, 256, 8, 8, 64}};
  constexpr Shape kDecode = {1, 1, 16384, 32, 8, 128};
  constexpr Shape kSmall = {1, 1, 1, 1, 1, 16};
  for (const dhyan_dtype dtype : {DHYAN_F32, DHYAN_BF16, DHYAN_F16}) {
    const auto add = [&](const Shape& s, bool causal) {
      benchmark::RegisterBenchmark(name_of(s, dtype, causal).c_str(), [=](benchmark::State& state) {
        forward(state, s, dtype, causal);
      })->UseRealTime();
    };
    for (const Shape& s : kPeers) {
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
}  // namespace dhyan

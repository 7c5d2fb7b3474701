// SPDX-License-Identifier: Apache-2.0
// Rates of the engines on the products that attention makes: scores (k = head_dim) and weights times values (k = keys).
#include <benchmark/benchmark.h>

#include <random>
#include <string>
#include <vector>

#include "core/convert.hpp"
#include "cpu/engine.hpp"

namespace {

using dhyan::cpu::Engine;
using dhyan::cpu::Left;

struct Shape {
  int m, n, k;
};

class Storage {
 public:
  explicit Storage(std::size_t bytes) : bytes_(bytes + 64) {}
  void* data() {
    const auto address = reinterpret_cast<std::uintptr_t>(bytes_.data());
    return bytes_.data() + (64 - address % 64) % 64;
  }

 private:
  std::vector<std::byte> bytes_;
};

std::vector<dhyan::core::BFloat16> numbers(int count) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<dhyan::core::BFloat16> values(static_cast<std::size_t>(count));
  for (auto& value : values) value = dhyan::core::to_bfloat16(normal(random));
  return values;
}

void multiply(benchmark::State& state, const Engine* engine, Shape shape) {
  const auto [m, n, k] = shape;
  const auto a = numbers(m * k);
  const auto b = numbers(k * n);
  Storage left_storage(engine->left_bytes(m, k)), right_storage(engine->right_bytes(k, n));
  const std::int64_t stride = (n + 15) / 16 * 16;
  Storage c(static_cast<std::size_t>(m * stride) * sizeof(float));
  const Left left = engine->left({a.data(), DHYAN_BF16, k}, m, k, left_storage.data());
  engine->right({b.data(), DHYAN_BF16, n}, k, n, right_storage.data());
  for (auto _ : state) {
    engine->multiply(left, right_storage.data(), static_cast<float*>(c.data()), stride, m, n, k, false);
    benchmark::ClobberMemory();
  }
  state.counters["GFLOP/s"] = benchmark::Counter(2e-9 * m * n * k, benchmark::Counter::kIsIterationInvariantRate);
}

// The packing functions by the bytes they read.
enum class Pack { left_f32, left_transposed, right, right_transposed };

void pack(benchmark::State& state, const Engine* engine, Pack what, int rows, int columns) {
  const auto values = numbers(rows * columns);
  const std::vector<float> wide(values.size(), 0.5f);
  const dhyan::cpu::Source source{values.data(), DHYAN_BF16, columns};
  const dhyan::cpu::Source wide_source{wide.data(), DHYAN_F32, columns};
  Storage storage(engine->left_bytes(rows, columns) + engine->left_bytes(columns, rows) + engine->right_bytes(rows, columns) +
                  engine->right_bytes(columns, rows));
  for (auto _ : state) {
    switch (what) {
      case Pack::left_f32:
        benchmark::DoNotOptimize(engine->left(wide_source, rows, columns, storage.data()));
        break;
      case Pack::left_transposed:
        benchmark::DoNotOptimize(engine->left_transposed(source, columns, rows, storage.data()));
        break;
      case Pack::right:
        engine->right(source, rows, columns, storage.data());
        break;
      case Pack::right_transposed:
        engine->right_transposed(source, columns, rows, storage.data());
        break;
    }
    benchmark::ClobberMemory();
  }
  state.counters["elements/s"] = benchmark::Counter(double(rows) * columns, benchmark::Counter::kIsIterationInvariantRate);
}

const bool registered = [] {
  for (const Engine* engine : {&dhyan::cpu::f32_engine(), dhyan::cpu::bf16_dot_engine(), dhyan::cpu::amx_engine()}) {
    if (!engine) continue;
    const std::string name = engine->name;
    for (const Shape shape : {Shape{64, 512, 64},
                              {64, 64, 512},
                              {64, 512, 128},
                              {64, 128, 512},
                              {96, 256, 64},
                              {192, 512, 64},
                              {192, 64, 512},
                              {64, 80, 256},
                              {4, 512, 128}}) {
      const std::string title =
          name + "/multiply/" + std::to_string(shape.m) + "x" + std::to_string(shape.n) + "x" + std::to_string(shape.k);
      benchmark::RegisterBenchmark(title.c_str(), multiply, engine, shape);
    }
    benchmark::RegisterBenchmark((name + "/left from f32/64x512").c_str(), pack, engine, Pack::left_f32, 64, 512);
    benchmark::RegisterBenchmark((name + "/left transposed/64x512").c_str(), pack, engine, Pack::left_transposed, 64, 512);
    benchmark::RegisterBenchmark((name + "/right/512x64").c_str(), pack, engine, Pack::right, 512, 64);
    benchmark::RegisterBenchmark((name + "/right transposed/512x64").c_str(), pack, engine, Pack::right_transposed, 512, 64);
  }
  return true;
}();

}  // namespace

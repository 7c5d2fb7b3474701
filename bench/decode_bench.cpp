// SPDX-License-Identifier: Apache-2.0
// One-query decode against a plain read of the same keys and values: T 1, N 32, K 8, H 128, four times the last cache.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <new>
#include <vector>

#include "core/convert.hpp"
#include "core/parallel.hpp"
#include "dhyan/dhyan.hpp"

namespace {

constexpr std::int64_t kQueryHeads = 32;
constexpr std::int64_t kKeyHeads = 8;
constexpr std::int64_t kHeadDim = 128;
constexpr std::int64_t kChunk = 1 << 20;

// Of keys and values together: four times the last cache, at least 128 MiB. (glibc's sysconf adds up caches of other cores.)
std::int64_t bytes_read() {
  std::int64_t cache = 0;
  std::ifstream("/sys/devices/system/cpu/cpu0/cache/index3/size") >> cache;  // "32768K"
  return std::max<std::int64_t>(128 * kChunk, 4 * cache * 1024 / (2 * kChunk) * (2 * kChunk));
}

using Word = std::uint64_t __attribute__((vector_size(32), may_alias));

__attribute__((target_clones("avx2", "default"))) std::uint64_t sum(const std::byte* data, std::int64_t bytes) {
  Word a{}, b{}, c{}, d{};
  for (std::int64_t i = 0; i < bytes; i += 4 * static_cast<std::int64_t>(sizeof(Word))) {
    const Word* words = reinterpret_cast<const Word*>(data + i);
    a += words[0];
    b += words[1];
    c += words[2];
    d += words[3];
  }
  a += b + c + d;
  return a[0] + a[1] + a[2] + a[3];
}

// Random numbers, 64-byte aligned.
template <class T>
class Numbers {
 public:
  explicit Numbers(std::int64_t count) : data_(static_cast<T*>(::operator new (count * sizeof(T), std::align_val_t{64}))) {
    std::uint64_t state = 1;
    for (std::int64_t i = 0; i < count; ++i) {
      state = state * 6364136223846793005 + 1442695040888963407;
      const float x = static_cast<float>(state >> 40) * 0x1p-23f - 1;
      if constexpr (sizeof(T) == 4) {
        data_.get()[i] = x;
      } else {
        data_.get()[i] = {dhyan::core::to_bfloat16(x).bits};
      }
    }
  }
  T* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(T* p) const { ::operator delete (p, std::align_val_t{64}); }
  };
  std::unique_ptr<T, Free> data_;
};

template <class T>
struct Cache {
  std::int64_t length = bytes_read() / (2 * kKeyHeads * kHeadDim * static_cast<std::int64_t>(sizeof(T)));
  Numbers<T> key{length * kKeyHeads * kHeadDim};
  Numbers<T> value{length * kKeyHeads * kHeadDim};
};

template <class T>
const Cache<T>& cache() {
  static const Cache<T> shared;
  return shared;
}

template <class T>
void decode(benchmark::State& state) {
  const Cache<T>& kv = cache<T>();
  const Numbers<T> query(kQueryHeads * kHeadDim), out(kQueryHeads * kHeadDim);
  const dhyan::Problem problem{.query = {query.data(), {1, 1, kQueryHeads, kHeadDim}},
                               .key = {kv.key.data(), {1, kv.length, kKeyHeads, kHeadDim}},
                               .value = {kv.value.data(), {1, kv.length, kKeyHeads, kHeadDim}},
                               .out = {out.data(), {1, 1, kQueryHeads, kHeadDim}},
                               .options = {.implementation = dhyan::Implementation::fused}};
  const dhyan::Plan plan = dhyan::Plan::forward(problem);
  const dhyan::Buffers buffers(problem);
  for (auto _ : state) plan.run(buffers);
  state.SetBytesProcessed(state.iterations() * bytes_read());
}

template <class T>
void read(benchmark::State& state) {
  const Cache<T>& kv = cache<T>();
  const int threads = dhyan::core::hardware_threads();
  const std::int64_t chunks = bytes_read() / kChunk;
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(chunks));
  for (auto _ : state) {
    dhyan::core::parallel_for(chunks, threads, [&](std::int64_t chunk, int) {
      const T* half = chunk < chunks / 2 ? kv.key.data() : kv.value.data();
      const auto* bytes = reinterpret_cast<const std::byte*>(half) + chunk % (chunks / 2) * kChunk;
      sums[static_cast<std::size_t>(chunk)] = sum(bytes, kChunk);
    });
    benchmark::DoNotOptimize(sums.data());
  }
  state.SetBytesProcessed(state.iterations() * bytes_read());
}

BENCHMARK(decode<float>)->Name("decode_f32")->UseRealTime();
BENCHMARK(read<float>)->Name("read_f32")->UseRealTime();
BENCHMARK(decode<dhyan::BFloat16>)->Name("decode_bf16")->UseRealTime();
BENCHMARK(read<dhyan::BFloat16>)->Name("read_bf16")->UseRealTime();

}  // namespace

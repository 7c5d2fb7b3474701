// SPDX-License-Identifier: Apache-2.0
// Problems and tensors for the benchmarks of whole passes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <random>
#include <string>

#include "core/convert.hpp"
#include "core/parallel.hpp"
#include "core/problem.hpp"

namespace dhyan::bench {

struct Shape {
  std::int64_t batch, queries, keys, query_heads, key_heads, head_dim;
};

// The shapes that peers are timed on.
inline constexpr Shape kPeerShapes[] = {{4, 128, 128, 8, 8, 64},   {1, 512, 512, 8, 8, 64},   {1, 1024, 1024, 8, 8, 64},
                                        {1, 2048, 2048, 8, 8, 64}, {1, 4096, 4096, 4, 4, 64}, {1, 2048, 2048, 4, 4, 128},
                                        {16, 256, 256, 8, 8, 64}};

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<void, Free>;

inline Memory memory(std::size_t bytes) {
  void* pages = nullptr;
  if (posix_memalign(&pages, 4096, std::max<std::size_t>(bytes, 64)) != 0) throw std::bad_alloc();
  return Memory(pages);
}

inline Memory random_tensor(dhyan_dtype dtype, std::int64_t count) {
  static std::mt19937_64 generator(std::random_device{}());
  std::normal_distribution<double> normal;
  Memory tensor = memory(static_cast<std::size_t>(count) * core::size_of(dtype));
  for (std::int64_t i = 0; i < count; ++i) core::store(tensor.get(), dtype, i, normal(generator));
  return tensor;
}

inline core::Operand rows(dhyan_dtype dtype, std::int64_t tokens, std::int64_t heads, std::int64_t width) {
  return {dtype, {tokens * heads * width, heads * width, width, 0}, 16};
}

// A dense forward problem, contiguous BTNH.
inline core::Problem problem_of(const Shape& s, dhyan_dtype dtype, bool causal) {
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
  return p;
}

inline double operations_of(const Shape& s, bool causal) {
  return 4.0 * static_cast<double>(s.batch * s.query_heads) * static_cast<double>(s.queries) * static_cast<double>(s.keys) *
         static_cast<double>(s.head_dim) * (causal ? 0.5 : 1);
}

inline std::string name_of(const char* direction, const Shape& s, dhyan_dtype dtype, bool causal) {
  return std::string(direction) + "/" + core::name_of(dtype) + "/B" + std::to_string(s.batch) + "_T" +
         std::to_string(s.queries) + "_S" + std::to_string(s.keys) + "_N" + std::to_string(s.query_heads) + "_K" +
         std::to_string(s.key_heads) + "_H" + std::to_string(s.head_dim) + (causal ? "/causal" : "/full");
}

}  // namespace dhyan::bench

// SPDX-License-Identifier: Apache-2.0
// Products of bf16 tiles by VDPBF16PS: each instruction adds 16 sums of two products.
#include <cstring>

#include "cpu/bf16_pack.hpp"
#include "cpu/engine.hpp"
#include "cpu/target.hpp"

namespace dhyan::cpu {
namespace {

using bf16::Form;
using bf16::kLanes;

constexpr int kRows = 6;     // 6 x 4 accumulators, 4 columns and a broadcast: 29 of 32 registers
constexpr int kVectors = 4;  // widest panel

std::size_t left_bytes(int m, int k) {
  const std::int64_t rows = m * bf16::padded_row(k) * 2;
  const std::int64_t transposed = std::int64_t{bf16::pairs_of(k)} * bf16::vectors_of(m) * 64;
  return static_cast<std::size_t>(std::max(rows, transposed));
}

std::size_t right_bytes(int k, int n) {
  return static_cast<std::size_t>(std::int64_t{bf16::pairs_of(k)} * bf16::vectors_of(n) * 64);
}

// Strides of a Left are in bytes: between rows, and between pairs along the depth.
Left left(const Source& source, int m, int k, void* storage) {
  const Form form = bf16::form_of(source);
  if (form == Form::bf16 && k % 2 == 0) return {source.data, source.stride * 2, 4};
  bf16::kPackRows[static_cast<int>(form)](source, m, k, storage);
  return {storage, bf16::padded_row(k) * 2, 4};
}

// One panel as wide as all rows: a row's pair is one of its columns.
Left left_transposed(const Source& source, int m, int k, void* storage) {
  const int vectors = bf16::vectors_of(m);
  bf16::kPack[static_cast<int>(bf16::form_of(source))](source, k, m, bf16::pairs_of(k), std::max(vectors, 1), storage);
  return {storage, 4, std::int64_t{vectors} * 64};
}

void right(const Source& source, int k, int n, void* storage) {
  bf16::kPack[static_cast<int>(bf16::form_of(source))](source, k, n, bf16::pairs_of(k), kVectors, storage);
}

void right_transposed(const Source& source, int k, int n, void* storage) {
  bf16::kPackTransposed[static_cast<int>(bf16::form_of(source))](source, k, n, bf16::pairs_of(k), kVectors, storage);
}

struct Operands {
  const std::byte* a;
  std::int64_t row_bytes, depth_bytes;
  const std::byte* b;
  float* c;
  std::int64_t stride;
  int pairs;
  bool accumulate;
};

// R rows by V vectors of C stay in registers over the whole depth. The loops over them are unrolled early, which lets the
// compiler see single registers where the source says arrays.
template <int R, int V>
DHYAN_TARGET_BF16 void block(const Operands& o) {
  const std::int64_t row_bytes = o.row_bytes;
  const std::int64_t stride = o.stride;
  float* const c = o.c;
  __m512 sum[R][V];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) sum[r][v] = _mm512_setzero_ps();
  }
  const std::byte* a = o.a;
  const std::byte* b = o.b;
  const std::byte* const end = b + std::int64_t{o.pairs} * V * 64;
  for (; b != end; a += o.depth_bytes, b += V * 64) {
    __m512bh columns[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) columns[v] = (__m512bh)_mm512_load_si512(b + v * 64);
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      std::int32_t two;
      std::memcpy(&two, a + r * row_bytes, sizeof two);
      const auto row = (__m512bh)_mm512_set1_epi32(two);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) sum[r][v] = _mm512_dpbf16_ps(sum[r][v], row, columns[v]);
    }
  }
  const __mmask16 keep = o.accumulate ? 0xFFFF : 0;
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      float* const at = c + r * stride + v * kLanes;
      _mm512_store_ps(at, _mm512_add_ps(_mm512_maskz_load_ps(keep, at), sum[r][v]));
    }
  }
}

using Block = void (*)(const Operands&);
constexpr Block kBlocks[kRows][kVectors] = {
    {block<1, 1>, block<1, 2>, block<1, 3>, block<1, 4>}, {block<2, 1>, block<2, 2>, block<2, 3>, block<2, 4>},
    {block<3, 1>, block<3, 2>, block<3, 3>, block<3, 4>}, {block<4, 1>, block<4, 2>, block<4, 3>, block<4, 4>},
    {block<5, 1>, block<5, 2>, block<5, 3>, block<5, 4>}, {block<6, 1>, block<6, 2>, block<6, 3>, block<6, 4>},
};

void multiply(const Left& left, const void* right, float* c, std::int64_t stride, int m, int n, int k, bool accumulate) {
  const bf16::Panels panels(bf16::vectors_of(n), kVectors);
  const int pairs = bf16::pairs_of(k);
  const int blocks = (m + kRows - 1) / kRows;
  const auto* b = static_cast<const std::byte*>(right);
  for (int panel = 0; panel < panels.count; ++panel) {
    const int width = panels.vectors(panel);
    const auto* a = static_cast<const std::byte*>(left.data);
    float* rows = c;
    for (int i = 0; i < blocks; ++i) {
      const int height = m / blocks + (i < m % blocks);
      kBlocks[height - 1][width - 1]({a, left.row_stride, left.depth_stride, b, rows, stride, pairs, accumulate});
      a += height * left.row_stride;
      rows += height * stride;
    }
    b += std::int64_t{pairs} * width * 64;
    c += width * kLanes;
  }
}

constexpr Engine kEngine = {
    .name = "avx512_bf16",
    .operand = DHYAN_BF16,
    .rows = kRows,
    .columns = kVectors * kLanes,
    .depth = 2,
    .left_bytes = left_bytes,
    .right_bytes = right_bytes,
    .left = left,
    .left_transposed = left_transposed,
    .right = right,
    .right_transposed = right_transposed,
    .multiply = multiply,
};

}  // namespace

const Engine* bf16_dot_engine() { return has_avx512_bf16() ? &kEngine : nullptr; }

}  // namespace dhyan::cpu

// SPDX-License-Identifier: Apache-2.0
// The f32 engine, once per Highway target. A is read element by element (broadcast), B lies in panels of at most
// kPanelVectors vectors, so that one row of a panel times one column of A fills kPanelVectors * rows accumulators.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cpu/dispatch.hpp"
#include "cpu/engine.hpp"
#include "cpu/target.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/engine_f32.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/load-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace dhyan::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using Lanes = hn::ScalableTag<float>;
using Vector = hn::Vec<Lanes>;
constexpr int kLanes = static_cast<int>(HWY_MAX_BYTES / sizeof(float));
constexpr bool kManyRegisters = kLanes == 16;  // AVX-512 has 32 vector registers, the others 16

// Accumulators of the micro-kernel: rows for each panel width in vectors.
constexpr int kPanelVectors = kManyRegisters ? 4 : 2;
constexpr int kRowsOfWidth[5] = {0, kManyRegisters ? 8 : 6, kManyRegisters ? 8 : 6, 8, 6};

constexpr int kColumns = 16;  // padding of n, the same for every target

constexpr int round_up(int x, int multiple) { return (x + multiple - 1) / multiple * multiple; }

// Panels of one right operand: as few as possible, as even as possible.
struct Panels {
  int count, narrow, wider;  // the first `wider` panels have narrow + 1 vectors
  explicit Panels(int n) {
    const int vectors = round_up(n, kColumns) / kLanes;
    count = (vectors + kPanelVectors - 1) / kPanelVectors;
    narrow = count == 0 ? 0 : vectors / count;
    wider = count == 0 ? 0 : vectors % count;
  }
  int vectors(int panel) const { return narrow + (panel < wider ? 1 : 0); }
};

template <int kRows, int kVectors>
void micro(const float* HWY_RESTRICT a, std::int64_t row_stride, std::int64_t depth_stride, const float* HWY_RESTRICT b,
           float* HWY_RESTRICT c, std::int64_t stride, int k, bool accumulate) {
  const Lanes d;
  Vector sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(d);
  }
  for (int i = 0; i < k; ++i) {
    Vector right[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) right[v] = hn::Load(d, b + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Vector left = hn::Set(d, a[r * row_stride]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(left, right[v], sum[r][v]);
    }
    a += depth_stride;
    b += kVectors * kLanes;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      float* at = c + r * stride + v * kLanes;
      hn::Store(accumulate ? hn::Add(hn::Load(d, at), sum[r][v]) : sum[r][v], d, at);
    }
  }
}

using Micro = void (*)(const float*, std::int64_t, std::int64_t, const float*, float*, std::int64_t, int, bool);

template <int kVectors>
Micro micro_of_rows(int rows) {
  static constexpr Micro table[8] = {
      micro<1, kVectors>,
      micro<2, kVectors>,
      micro<3, kVectors>,
      micro<4, kVectors>,
      micro<5, kVectors>,
      micro<6, kVectors>,
      kRowsOfWidth[kVectors] > 6 ? micro<(kRowsOfWidth[kVectors] > 6 ? 7 : 6), kVectors> : nullptr,
      kRowsOfWidth[kVectors] > 6 ? micro<(kRowsOfWidth[kVectors] > 6 ? 8 : 6), kVectors> : nullptr,
  };
  return table[rows - 1];
}

Micro micro_of(int vectors, int rows) {
  switch (vectors) {
    case 1:
      return micro_of_rows<1>(rows);
    case 2:
      return micro_of_rows<2>(rows);
    case 3:
      return micro_of_rows<std::min(3, kPanelVectors)>(rows);
    default:
      return micro_of_rows<kPanelVectors>(rows);
  }
}

void multiply(const Left& left, const void* right, float* c, std::int64_t stride, int m, int n, int k, bool accumulate) {
  const Panels panels(n);
  const auto* a = static_cast<const float*>(left.data);
  const auto* b = static_cast<const float*>(right);
  for (int panel = 0; panel < panels.count; ++panel) {
    const int vectors = panels.vectors(panel);
    const int step = kRowsOfWidth[vectors];
    const Micro full = micro_of(vectors, step);
    int r = 0;
    for (; r + step <= m; r += step)
      full(a + r * left.row_stride, left.row_stride, left.depth_stride, b, c + r * stride, stride, k, accumulate);
    if (r < m)
      micro_of(vectors, m - r)(a + r * left.row_stride, left.row_stride, left.depth_stride, b, c + r * stride, stride, k,
                               accumulate);
    b += std::int64_t{vectors} * kLanes * k;
    c += vectors * kLanes;
  }
}

std::size_t left_bytes(int m, int k) {
  const std::size_t padded = static_cast<std::size_t>(round_up(m, kColumns)) * static_cast<std::size_t>(round_up(k, kColumns));
  return padded * sizeof(float);
}

std::size_t right_bytes(int k, int n) {
  return static_cast<std::size_t>(k) * static_cast<std::size_t>(round_up(n, kColumns)) * sizeof(float);
}

Left rows_as_stored(const Source& source, int rows, int columns, void* storage) {
  const int padded = round_up(columns, kColumns);
  auto* to = static_cast<float*>(storage);
  for (int r = 0; r < rows; ++r) widen_row(source, r, columns, padded, to + std::int64_t{r} * padded);
  return {storage, padded, 1};
}

bool is_view(const Source& source) { return source.dtype == DHYAN_F32 && source.factor == 1; }

Left left(const Source& source, int m, int k, void* storage) {
  if (is_view(source)) return {source.data, source.stride, 1};
  return rows_as_stored(source, m, k, storage);
}

Left left_transposed(const Source& source, int m, int k, void* storage) {
  if (is_view(source)) return {source.data, 1, source.stride};
  const Left stored = rows_as_stored(source, k, m, storage);
  return {stored.data, 1, stored.row_stride};
}

void right(const Source& source, int k, int n, void* storage) {
  const Panels panels(n);
  auto* to = static_cast<float*>(storage);
  int column = 0;
  for (int panel = 0; panel < panels.count; ++panel) {
    const int width = panels.vectors(panel) * kLanes;
    const int filled = std::min(width, n - column);
    const Source part = {at(source, 0, column), source.dtype, source.stride, source.factor};
    for (int i = 0; i < k; ++i, to += width) widen_row(part, i, filled, width, to);
    column += width;
  }
}

// Four neighbours from every fourth row, the first row in the lowest block.
template <class D>
hn::Vec<D> load_blocks(D d, const float* from, std::int64_t stride) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    return hn::LoadU(d, from);
  } else {
    const hn::Half<D> half;
    constexpr int kRows = static_cast<int>(hn::MaxLanes(hn::Half<D>()));
    return hn::Combine(d, load_blocks(half, from + kRows * stride, stride), load_blocks(half, from, stride));
  }
}

// Four columns of kLanes rows, each column into one vector.
void transpose_columns(const float* from, std::int64_t stride, float* to, std::int64_t to_stride) {
  const Lanes d;
  const hn::Repartition<double, Lanes> pairs;
  Vector v[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) v[i] = load_blocks(d, from + i * stride, stride);
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, v[0], v[1]));
  const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, v[0], v[1]));
  const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, v[2], v[3]));
  const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, v[2], v[3]));
  hn::Store(hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)), d, to);
  hn::Store(hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)), d, to + to_stride);
  hn::Store(hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)), d, to + 2 * to_stride);
  hn::Store(hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23)), d, to + 3 * to_stride);
}

void right_transposed(const Source& source, int k, int n, void* storage) {
  constexpr int kChunk = 64;  // columns of the source widened at a time where it cannot be read as it is
  HWY_ALIGN float chunk[kLanes * kChunk];
  const Panels panels(n);
  auto* to = static_cast<float*>(storage);
  int row = 0;
  for (int panel = 0; panel < panels.count; ++panel) {
    const int width = panels.vectors(panel) * kLanes;
    for (int v = 0; v < panels.vectors(panel); ++v, row += kLanes) {
      float* column = to + v * kLanes;
      const int rows = std::clamp(n - row, 0, kLanes);
      int i = 0;
      if (is_view(source) && rows == kLanes) {
        const auto* from = static_cast<const float*>(source.data) + row * source.stride;
        for (; i + 4 <= k; i += 4) transpose_columns(from + i, source.stride, column + std::int64_t{i} * width, width);
      }
      for (; i < k; i += kChunk) {
        const int depth = std::min(kChunk, k - i);
        const Source part = {at(source, row, i), source.dtype, source.stride, source.factor};
        for (int r = 0; r < kLanes; ++r) {
          if (r < rows)
            widen_row(part, r, depth, round_up(depth, 4), chunk + r * kChunk);
          else
            std::memset(chunk + r * kChunk, 0, sizeof(float) * static_cast<std::size_t>(round_up(depth, 4)));
        }
        for (int j = 0; j < depth; j += 4) {
          float* out = column + std::int64_t{i + j} * width;
          if (j + 4 <= depth) {
            transpose_columns(chunk + j, kChunk, out, width);
            continue;
          }
          HWY_ALIGN float last[4 * kLanes];
          transpose_columns(chunk + j, kChunk, last, kLanes);
          for (int r = 0; r < depth - j; ++r)
            std::memcpy(out + std::int64_t{r} * width, last + r * kLanes, sizeof(float) * kLanes);
        }
      }
    }
    to += std::int64_t{width} * k;
  }
}

const Engine& engine() {
  static constexpr Engine kEngine = {
      .name = kManyRegisters ? "avx3"
              : kLanes == 8  ? "avx2"
                             : "sse4",
      .operand = DHYAN_F32,
      .rows = kManyRegisters ? 24 : 6,
      .columns = kManyRegisters ? 64 : 16,
      .depth = 1,
      .left_bytes = left_bytes,
      .right_bytes = right_bytes,
      .left = left,
      .left_transposed = left_transposed,
      .right = right,
      .right_transposed = right_transposed,
      .multiply = multiply,
  };
  return kEngine;
}

}  // namespace
// Highway's dispatch table needs a name it can see.
const Engine& f32_engine_of_target() { return engine(); }
}  // namespace HWY_NAMESPACE
}  // namespace dhyan::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dhyan::cpu {
HWY_EXPORT(f32_engine_of_target);

const Engine& f32_engine_on(std::int64_t targets) { return pick(HWY_DISPATCH_TABLE(f32_engine_of_target), targets)(); }

const Engine& f32_engine() { return f32_engine_on(highway_targets()); }

}  // namespace dhyan::cpu
#endif

// SPDX-License-Identifier: Apache-2.0
// Streaming products of bf16 keys and values by VDPBF16PS, which takes them as they lie in memory: widening each element first
// costs more than multiplying it.
#include <algorithm>
#include <cstring>

#include "cpu/bf16_pack.hpp"
#include "cpu/stream.hpp"
#include "cpu/target.hpp"

namespace dhyan::cpu {
namespace {

constexpr int kKeys = 4;
constexpr int kRows = 4;
constexpr int kWide = 32;  // bf16 of a vector
constexpr int kMostDim = 512;
constexpr int kMostCount = 32;       // kStreamKeys in whole vectors
constexpr std::int64_t kAhead = 16;  // as in stream.cpp

using Bf16 = std::uint16_t;

// Rows of f32 that bf16 can hold become rows of bf16, zero up to a multiple of 32.
DHYAN_TARGET_BF16 void narrow(const float* from, std::int64_t stride, int rows, int count, Bf16* to, int to_stride) {
  for (int r = 0; r < rows; ++r) {
    for (int i = 0; i < count; i += kWide) {
      const std::uint32_t mask = bf16::low_bits(count - i, kWide);
      const float* at = from + r * stride + i;
      const __m512 low = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), at);
      const __m512 high = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> 16), at + 16);
      _mm512_store_si512(to + r * to_stride + i, (__m512i)_mm512_cvtne2ps_pbh(high, low));
    }
  }
}

// Lane i of each block: the sum of that block of v[i].
DHYAN_TARGET_BF16 inline __m512 sums_in_blocks(const __m512 (&v)[kKeys]) {
  const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(v[0], v[1]), _mm512_unpackhi_ps(v[0], v[1]));
  const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(v[2], v[3]), _mm512_unpackhi_ps(v[2], v[3]));
  return _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xEE));
}

DHYAN_TARGET_BF16 inline __m512 halves(__m512 a, __m512 b) {
  return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xEE));
}

// Block r of the result is the sums over the lanes of v[r][0..3]; rows that are not there count as the first.
template <int kQueries>
DHYAN_TARGET_BF16 inline __m512 sums_of_lanes(const __m512 (&v)[kQueries][kKeys]) {
  __m512 row[4];
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r) row[r] = r < kQueries ? sums_in_blocks(v[r < kQueries ? r : 0]) : row[0];
  const __m512 first = halves(row[0], row[1]), second = halves(row[2], row[3]);
  return _mm512_add_ps(_mm512_shuffle_f32x4(first, second, 0x88), _mm512_shuffle_f32x4(first, second, 0xDD));
}

template <int kQueries, bool kFirst>
DHYAN_TARGET_BF16 inline void score_block(const Bf16* query, const Bf16* const* key, std::int64_t key_stride, int keys, int dim,
                                          float* scores, std::int64_t stride) {
  __m512 sum[kQueries][kKeys];
#pragma GCC unroll 4
  for (int r = 0; r < kQueries; ++r) {
#pragma GCC unroll 4
    for (int s = 0; s < kKeys; ++s) sum[r][s] = _mm512_setzero_ps();
  }
  const auto add = [&](int i, auto load) DHYAN_TARGET_BF16 {
    __m512bh k[kKeys];
#pragma GCC unroll 4
    for (int s = 0; s < kKeys; ++s) {
      k[s] = (__m512bh)load(key[s] + i);
      if constexpr (kFirst) __builtin_prefetch(key[s] + i + kAhead * key_stride, 0, 2);
    }
#pragma GCC unroll 4
    for (int r = 0; r < kQueries; ++r) {
      const auto q = (__m512bh)_mm512_load_si512(query + r * kMostDim + i);
#pragma GCC unroll 4
      for (int s = 0; s < kKeys; ++s) sum[r][s] = _mm512_dpbf16_ps(sum[r][s], q, k[s]);
    }
  };
  int i = 0;
  for (; i + kWide <= dim; i += kWide) add(i, [](const Bf16* at) DHYAN_TARGET_BF16 { return _mm512_loadu_si512(at); });
  if (i < dim) {
    const std::uint32_t mask = bf16::low_bits(dim - i, kWide);
    add(i, [mask](const Bf16* at) DHYAN_TARGET_BF16 { return _mm512_maskz_loadu_epi16(mask, at); });
  }
  const auto there = static_cast<__mmask8>(bf16::low_bits(keys, kKeys));
  const __m512 all = sums_of_lanes(sum);
  _mm_mask_storeu_ps(scores, there, _mm512_castps512_ps128(all));
  if constexpr (kQueries == kRows) {
    _mm_mask_storeu_ps(scores + stride, there, _mm512_extractf32x4_ps(all, 1));
    _mm_mask_storeu_ps(scores + 2 * stride, there, _mm512_extractf32x4_ps(all, 2));
    _mm_mask_storeu_ps(scores + 3 * stride, there, _mm512_extractf32x4_ps(all, 3));
  }
}

DHYAN_TARGET_BF16 void scores(const float* query, std::int64_t query_stride, int rows, const Source& source, int count, int dim,
                              float* scores, std::int64_t stride) {
  alignas(64) Bf16 packed[kStreamRows * kMostDim];
  narrow(query, query_stride, rows, dim, packed, kMostDim);
  const auto* base = static_cast<const Bf16*>(source.data);
  for (int s = 0; s < count; s += kKeys) {
    const int keys = std::min(kKeys, count - s);
    const Bf16* key[kKeys];
    for (int i = 0; i < kKeys; ++i) key[i] = base + (s + std::min(i, keys - 1)) * source.stride;
    int r = 0;
    if (rows >= kRows) {
      score_block<kRows, true>(packed, key, source.stride, keys, dim, scores + s, stride);
      for (r = kRows; r + kRows <= rows; r += kRows) {
        score_block<kRows, false>(packed + r * kMostDim, key, source.stride, keys, dim, scores + r * stride + s, stride);
      }
    } else {
      score_block<1, true>(packed, key, source.stride, keys, dim, scores + s, stride);
      r = 1;
    }
    for (; r < rows; ++r) {
      score_block<1, false>(packed + r * kMostDim, key, source.stride, keys, dim, scores + r * stride + s, stride);
    }
  }
}

// Two values' rows side by side become pairs along the keys; within each 128-bit block the first four columns' pairs land in
// `low`, the next four in `high`. `ordered` undoes that.
DHYAN_TARGET_BF16 inline void pair(__m512i first, __m512i second, __m512bh& low, __m512bh& high) {
  low = (__m512bh)_mm512_unpacklo_epi16(first, second);
  high = (__m512bh)_mm512_unpackhi_epi16(first, second);
}

DHYAN_TARGET_BF16 inline __m512 ordered(__m512 low, __m512 high, bool upper) {
  const __m512 blocks = upper ? _mm512_shuffle_f32x4(low, high, 0xEE) : _mm512_shuffle_f32x4(low, high, 0x44);
  return _mm512_shuffle_f32x4(blocks, blocks, 0xD8);
}

// Columns [0, columns) of kVectors vectors of 32, for kQueries rows of weights in pairs.
template <int kQueries, int kVectors, bool kFirst>
DHYAN_TARGET_BF16 inline void value_block(const Bf16* weights, const Bf16* value, std::int64_t value_stride, int count,
                                          int columns, float* sums, std::int64_t sum_stride) {
  __m512 sum[kQueries][2 * kVectors];
#pragma GCC unroll 4
  for (int r = 0; r < kQueries; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < 2 * kVectors; ++v) sum[r][v] = _mm512_setzero_ps();
  }
  const auto add = [&](int s, auto load, auto load_second) DHYAN_TARGET_BF16 {
    const Bf16* at = value + s * value_stride;
    __m512bh x[2 * kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v, at += kWide) {
      pair(load(at, v), load_second(at + value_stride, v), x[2 * v], x[2 * v + 1]);
      if constexpr (kFirst) {
        __builtin_prefetch(at + kAhead * value_stride, 0, 2);
        __builtin_prefetch(at + (kAhead + 1) * value_stride, 0, 2);
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < kQueries; ++r) {
      std::int32_t two;
      std::memcpy(&two, weights + r * kMostCount + s, sizeof two);
      const auto w = (__m512bh)_mm512_set1_epi32(two);
#pragma GCC unroll 4
      for (int v = 0; v < 2 * kVectors; ++v) sum[r][v] = _mm512_dpbf16_ps(sum[r][v], w, x[v]);
    }
  };
  const std::uint32_t mask = bf16::low_bits(columns - (kVectors - 1) * kWide, kWide);
  const auto whole = [](const Bf16* at, int) DHYAN_TARGET_BF16 { return _mm512_loadu_si512(at); };
  const auto part = [mask](const Bf16* at, int v)
                        DHYAN_TARGET_BF16 { return _mm512_maskz_loadu_epi16(v + 1 == kVectors ? mask : 0xFFFFFFFFu, at); };
  int s = 0;
  if (columns == kVectors * kWide) {
    for (; s + 2 <= count; s += 2) add(s, whole, whole);
  } else {
    for (; s + 2 <= count; s += 2) add(s, part, part);
  }
  if (s < count) add(s, part, [](const Bf16*, int) DHYAN_TARGET_BF16 { return _mm512_setzero_si512(); });
#pragma GCC unroll 4
  for (int r = 0; r < kQueries; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < 2 * kVectors; ++v) {
      if (v * 16 >= columns) continue;
      float* at = sums + r * sum_stride + v * 16;
      const __m512 more = ordered(sum[r][v / 2 * 2], sum[r][v / 2 * 2 + 1], v % 2);
      _mm512_store_ps(at, _mm512_add_ps(_mm512_load_ps(at), more));
    }
  }
}

template <int kQueries, bool kFirst>
DHYAN_TARGET_BF16 inline void value_rows(const Bf16* weights, const Source& source, int count, int dim, float* sums,
                                         std::int64_t sum_stride) {
  const auto* value = static_cast<const Bf16*>(source.data);
  int i = 0;
  for (; i + kWide < dim; i += 2 * kWide) {
    value_block<kQueries, 2, kFirst>(weights, value + i, source.stride, count, std::min(2 * kWide, dim - i), sums + i,
                                     sum_stride);
  }
  if (i < dim) value_block<kQueries, 1, kFirst>(weights, value + i, source.stride, count, dim - i, sums + i, sum_stride);
}

DHYAN_TARGET_BF16 void values(const float* weights, std::int64_t stride, int rows, const Source& source, int count, int dim,
                              float* sums, std::int64_t sum_stride) {
  alignas(64) Bf16 packed[kStreamRows * kMostCount];
  narrow(weights, stride, rows, count, packed, kMostCount);
  int r = 0;
  if (rows >= kRows) {
    value_rows<kRows, true>(packed, source, count, dim, sums, sum_stride);
    for (r = kRows; r + kRows <= rows; r += kRows) {
      value_rows<kRows, false>(packed + r * kMostCount, source, count, dim, sums + r * sum_stride, sum_stride);
    }
  } else {
    value_rows<1, true>(packed, source, count, dim, sums, sum_stride);
    r = 1;
  }
  for (; r < rows; ++r) value_rows<1, false>(packed + r * kMostCount, source, count, dim, sums + r * sum_stride, sum_stride);
}

}  // namespace

const StreamKernels* bf16_dot_stream_kernels() {
  if (!has_avx512_bf16()) return nullptr;
  static const StreamKernels kernels = [] {
    StreamKernels base = stream_kernels_on(highway_targets());
    base.name = "avx512_bf16";
    base.operand = DHYAN_BF16;
    base.scores = scores;
    base.values = values;
    return base;
  }();
  return &kernels;
}

}  // namespace dhyan::cpu

// SPDX-License-Identifier: Apache-2.0
// Packing of bf16 operands, shared by the VDPBF16PS and AMX engines: rows are read 32 elements at a time, rounded to nearest
// even, and laid out in pairs along the depth. VCVTNE2PS2BF16 rounds and takes subnormals for zero, as both products do anyway.
#pragma once

// GCC 12 takes the undefined operands inside its own intrinsics for the caller's.
#pragma GCC diagnostic push
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <algorithm>
#include <cstdint>

#include "core/convert.hpp"
#include "cpu/engine.hpp"

#define DHYAN_TARGET_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))

namespace dhyan::cpu::bf16 {

inline constexpr int kLanes = 16;  // of 32 bits: f32 columns, or pairs of bf16

inline int pairs_of(int k) { return (k + 1) / 2; }
inline int vectors_of(int n) { return (n + kLanes - 1) / kLanes; }

// How a source is read; one instance of each packing function per form.
enum class Form { bf16, scaled_bf16, f16, f32 };
inline constexpr int kForms = 4;

inline Form form_of(const Source& source) {
  if (source.dtype == DHYAN_F32) return Form::f32;
  if (source.dtype == DHYAN_F16) return Form::f16;
  return source.factor == 1 ? Form::bf16 : Form::scaled_bf16;
}

template <Form F>
inline const std::byte* element(const Source& source, std::int64_t row, std::int64_t column) {
  constexpr std::int64_t size = F == Form::f32 ? 4 : 2;
  return static_cast<const std::byte*>(source.data) + (row * source.stride + column) * size;
}

// The lowest `count` of `lanes` bits; count may be negative or too large.
inline std::uint32_t low_bits(int count, int lanes) {
  count = std::clamp(count, 0, lanes);
  return count == 0 ? 0 : 0xFFFFFFFFu >> (32 - count);
}

// 16 elements as f32; those past `mask` are neither read nor anything but zero.
template <Form F>
DHYAN_TARGET_BF16 inline __m512 load16(const std::byte* at, __mmask16 mask) {
  if constexpr (F == Form::f32) return _mm512_maskz_loadu_ps(mask, at);
  const __m256i halves = _mm256_maskz_loadu_epi16(mask, at);
  if constexpr (F == Form::f16) return _mm512_cvtph_ps(halves);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

// 32 elements of a row as bf16, zero from `count` on.
template <Form F>
DHYAN_TARGET_BF16 inline __m512i load32(const std::byte* at, int count, __m512 factor) {
  const std::uint32_t mask = low_bits(count, 32);
  if constexpr (F == Form::bf16) return _mm512_maskz_loadu_epi16(mask, at);
  constexpr int half = kLanes * (F == Form::f32 ? 4 : 2);
  const __m512 low = _mm512_mul_ps(load16<F>(at, static_cast<__mmask16>(mask)), factor);
  const __m512 high = _mm512_mul_ps(load16<F>(at + half, static_cast<__mmask16>(mask >> 16)), factor);
  return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

// Two rows become pairs: (first[i], second[i]) for i < 16 in `low`, the rest in `high`.
DHYAN_TARGET_BF16 inline void interleave(__m512i first, __m512i second, __m512i& low, __m512i& high) {
  alignas(64) static constexpr std::uint16_t kLow[32] = {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                                                         8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
  const __m512i low_index = _mm512_load_si512(kLow);
  const __m512i high_index = _mm512_add_epi16(low_index, _mm512_set1_epi16(16));
  low = _mm512_permutex2var_epi16(first, low_index, second);
  high = _mm512_permutex2var_epi16(first, high_index, second);
}

// Transposes 16 rows of 16 32-bit values in registers.
DHYAN_TARGET_BF16 inline void transpose(__m512i (&row)[16]) {
  __m512i t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(row[i], row[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(row[i], row[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    row[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    row[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    row[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    row[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(row[i], row[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(row[i], row[i + 4], 0xDD);
    t[i + 8] = _mm512_shuffle_i32x4(row[i + 8], row[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(row[i + 8], row[i + 12], 0xDD);
  }
  for (int i = 0; i < 8; ++i) {
    row[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    row[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xDD);
  }
}

inline constexpr int kRowPad = 32;  // packed rows end on whole cache lines, zero past their k elements

inline std::int64_t padded_row(int k) { return (std::int64_t{k} + kRowPad - 1) / kRowPad * kRowPad; }

// Rows lie a token apart, too far for the hardware to foresee: the line kAhead rows on is asked for as one is read.
inline constexpr int kAhead = 32;

template <Form F>
DHYAN_TARGET_BF16 inline void prefetch(const Source& source, int row, int rows, int column) {
  _mm_prefetch(element<F>(source, std::min(row + kAhead, rows - 1), column), _MM_HINT_T0);
}

// A[m][k] = source(m, k): rows of bf16, padded_row(k) apart.
template <Form F>
DHYAN_TARGET_BF16 void pack_rows(const Source& source, int m, int k, void* storage) {
  auto* out = static_cast<__m512i*>(storage);
  const __m512 factor = _mm512_set1_ps(source.factor);
  for (int r = 0; r < m; ++r) {
    for (int i = 0; i < k; i += 32) {
      prefetch<F>(source, r, m, i);
      _mm512_store_si512(out++, load32<F>(element<F>(source, r, i), k - i, factor));
    }
  }
}

// Columns are cut into panels of at most `most` vectors, as equal as can be, wider ones first.
struct Panels {
  int count, narrow, wide;
  Panels(int vectors, int most) {
    count = (vectors + most - 1) / most;
    narrow = count ? vectors / count : 0;
    wide = count ? vectors % count : 0;
  }
  int vectors(int panel) const { return narrow + (panel < wide); }

  // Where one vector of columns lies: its first pair at storage + offset, the next ones `width` vectors apart.
  struct Place {
    std::int64_t offset;
    int width;
  };
  Place place(int vector, int pairs) const {
    const int in_wide = wide * (narrow + 1);
    const int width = vector < in_wide ? narrow + 1 : narrow;
    const int within = (vector < in_wide ? vector : vector - in_wide) % width;
    return {std::int64_t{vector - within} * pairs + within, width};
  }
};

// B[k][n] = source(k, n) as [panel][pair][column][2]; pairs past the source's are zero.
template <Form F>
DHYAN_TARGET_BF16 void pack(const Source& source, int k, int n, int pairs, int most, void* storage) {
  const __m512 factor = _mm512_set1_ps(source.factor);
  const __m512i zero = _mm512_setzero_si512();
  const int vectors = vectors_of(n);
  const Panels panels(vectors, most);
  for (int vector = 0; vector < vectors; vector += 2) {
    const int column = vector * kLanes;
    const bool both = vector + 1 < vectors;
    const Panels::Place left = panels.place(vector, pairs);
    const Panels::Place right = both ? panels.place(vector + 1, pairs) : left;
    auto* left_out = static_cast<__m512i*>(storage) + left.offset;
    auto* right_out = static_cast<__m512i*>(storage) + right.offset;
    for (int pair = 0; pair < pairs; ++pair, left_out += left.width, right_out += right.width) {
      const int row = 2 * pair;
      if (row < k) {
        prefetch<F>(source, row, k, column);
        prefetch<F>(source, row + 1, k, column);
      }
      const __m512i first = row < k ? load32<F>(element<F>(source, row, column), n - column, factor) : zero;
      const __m512i second = row + 1 < k ? load32<F>(element<F>(source, row + 1, column), n - column, factor) : zero;
      __m512i low, high;
      interleave(first, second, low, high);
      _mm512_store_si512(left_out, low);
      if (both) _mm512_store_si512(right_out, high);
    }
  }
}

// B[k][n] = source(n, k), laid out likewise: pairs already stand side by side, so 32-bit values are transposed.
template <Form F>
DHYAN_TARGET_BF16 void pack_transposed(const Source& source, int k, int n, int pairs, int most, void* storage) {
  const __m512 factor = _mm512_set1_ps(source.factor);
  const int vectors = vectors_of(n);
  const Panels panels(vectors, most);
  for (int vector = 0; vector < vectors; ++vector) {
    const int first = vector * kLanes;
    const int held = std::min(kLanes, n - first);
    const Panels::Place place = panels.place(vector, pairs);
    auto* out = static_cast<__m512i*>(storage) + place.offset;
    for (int pair = 0; pair < pairs; pair += kLanes) {
      const int left = k - 2 * pair;
      for (int r = 0; r < held; ++r) prefetch<F>(source, first + r, n, std::min(2 * pair, k - 1));
      __m512i rows[kLanes];
      if (held == kLanes && left >= 32) {
#pragma GCC unroll 16
        for (int r = 0; r < kLanes; ++r) rows[r] = load32<F>(element<F>(source, first + r, 2 * pair), 32, factor);
      } else {
        for (__m512i& row : rows) row = _mm512_setzero_si512();
        for (int r = 0; r < held; ++r) rows[r] = load32<F>(element<F>(source, first + r, 2 * pair), left, factor);
      }
      transpose(rows);
      const int used = std::min(kLanes, pairs - pair);
      if (used == kLanes) {
#pragma GCC unroll 16
        for (int p = 0; p < kLanes; ++p, out += place.width) _mm512_store_si512(out, rows[p]);
      } else {
        for (int p = 0; p < used; ++p, out += place.width) _mm512_store_si512(out, rows[p]);
      }
    }
  }
}

using PackRows = void (*)(const Source& source, int m, int k, void* storage);
using Pack = void (*)(const Source& source, int k, int n, int pairs, int most, void* storage);
inline constexpr PackRows kPackRows[kForms] = {pack_rows<Form::bf16>, pack_rows<Form::scaled_bf16>, pack_rows<Form::f16>,
                                               pack_rows<Form::f32>};
inline constexpr Pack kPack[kForms] = {pack<Form::bf16>, pack<Form::scaled_bf16>, pack<Form::f16>, pack<Form::f32>};
inline constexpr Pack kPackTransposed[kForms] = {pack_transposed<Form::bf16>, pack_transposed<Form::scaled_bf16>,
                                                 pack_transposed<Form::f16>, pack_transposed<Form::f32>};

}  // namespace dhyan::cpu::bf16

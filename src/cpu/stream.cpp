// SPDX-License-Identifier: Apache-2.0
#include "cpu/stream.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "cpu/dispatch.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/stream.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/load-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace dhyan::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kLanes = static_cast<int>(hn::MaxLanes(F32()));
constexpr int kKeys = 4;                      // keys whose products are summed side by side
constexpr int kRows = kLanes == 16 ? 4 : 2;   // queries likewise: kKeys * kRows accumulators
constexpr int kSlice = kLanes == 16 ? 4 : 2;  // vectors of a value's row; kRows * kSlice accumulators
constexpr std::int64_t kAhead = 16;           // rows between a read and the prefetch that serves a later one

template <dhyan_dtype kType>
struct Element {
  using Stored = std::uint16_t;
};
template <>
struct Element<DHYAN_F32> {
  using Stored = float;
};

template <dhyan_dtype kType>
HWY_INLINE F32Vector load(const typename Element<kType>::Stored* from) {
  if constexpr (kType == DHYAN_F32) return load_f32(from);
  if constexpr (kType == DHYAN_F16) return load_f16(from);
  if constexpr (kType == DHYAN_BF16) return load_bf16(from);
}

template <int kCount>
using Count = std::integral_constant<int, kCount>;

// Elements [0, count), count < kLanes, then zeros.
template <dhyan_dtype kType>
HWY_INLINE F32Vector load_first(const typename Element<kType>::Stored* from, int count) {
  HWY_ALIGN typename Element<kType>::Stored padded[kLanes] = {};
  std::memcpy(padded, from, sizeof(padded[0]) * static_cast<std::size_t>(count));
  return load<kType>(padded);
}

// Rows are read in order, but a row of one head is a short piece: hardware prefetchers lose the thread between pieces. The
// first reader of a row therefore asks for the vector's place in a later row.
template <class T>
HWY_INLINE void prefetch_later(const T* at, std::int64_t stride) {
  __builtin_prefetch(at + kAhead * stride, 0, 2);
}

// The sum of a vector's 128-bit blocks.
template <class D>
HWY_INLINE hn::Vec<hn::CappedTag<float, 4>> sum_of_blocks(D, hn::Vec<D> v) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    return v;
  } else {
    const hn::Half<D> half;
    return sum_of_blocks(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
}

// The sums over the lanes of four vectors.
HWY_INLINE hn::Vec<hn::CappedTag<float, 4>> sums_of_lanes(F32Vector a, F32Vector b, F32Vector c, F32Vector e) {
  const F32 d;
  const hn::Repartition<double, F32> pairs;
  const auto ab = hn::BitCast(pairs, hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b)));
  const auto ce = hn::BitCast(pairs, hn::Add(hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e)));
  return sum_of_blocks(
      d, hn::Add(hn::BitCast(d, hn::InterleaveLower(pairs, ab, ce)), hn::BitCast(d, hn::InterleaveUpper(pairs, ab, ce))));
}

// kQueries queries with four keys; a key that is not there repeats another, and its score is not stored.
template <dhyan_dtype kType, int kQueries, bool kFirst>
HWY_INLINE void score_block(const float* query, std::int64_t query_stride, const typename Element<kType>::Stored* const* key,
                            std::int64_t key_stride, int keys, int dim, float* scores, std::int64_t stride) {
  const F32 d;
  F32Vector sum[kQueries][kKeys];
#pragma GCC unroll 4
  for (int r = 0; r < kQueries; ++r) {
#pragma GCC unroll 4
    for (int s = 0; s < kKeys; ++s) sum[r][s] = hn::Zero(d);
  }
  int i = 0;
  for (; i + kLanes <= dim; i += kLanes) {
    F32Vector k[kKeys];
#pragma GCC unroll 4
    for (int s = 0; s < kKeys; ++s) {
      k[s] = load<kType>(key[s] + i);
      if constexpr (kFirst) prefetch_later(key[s] + i, key_stride);
    }
#pragma GCC unroll 4
    for (int r = 0; r < kQueries; ++r) {
      const F32Vector q = hn::Load(d, query + r * query_stride + i);
#pragma GCC unroll 4
      for (int s = 0; s < kKeys; ++s) sum[r][s] = hn::MulAdd(q, k[s], sum[r][s]);
    }
  }
  if (i < dim) {
    for (int s = 0; s < kKeys; ++s) {
      const F32Vector k = load_first<kType>(key[s] + i, dim - i);
      for (int r = 0; r < kQueries; ++r) sum[r][s] = hn::MulAdd(hn::Load(d, query + r * query_stride + i), k, sum[r][s]);
    }
  }
  const hn::CappedTag<float, 4> four;
#pragma GCC unroll 4
  for (int r = 0; r < kQueries; ++r) {
    const auto of_keys = sums_of_lanes(sum[r][0], sum[r][1], sum[r][2], sum[r][3]);
    if (HWY_LIKELY(keys == kKeys)) {
      hn::StoreU(of_keys, four, scores + r * stride);
    } else {
      HWY_ALIGN float first[kKeys];
      hn::Store(of_keys, four, first);
      std::copy_n(first, keys, scores + r * stride);
    }
  }
}

template <dhyan_dtype kType>
void scores_of(const float* query, std::int64_t query_stride, int rows, const Source& source, int count, int dim, float* scores,
               std::int64_t stride) {
  using T = typename Element<kType>::Stored;
  const T* base = static_cast<const T*>(source.data);
  for (int s = 0; s < count; s += kKeys) {
    const int keys = std::min(kKeys, count - s);
    const T* key[kKeys];
    for (int i = 0; i < kKeys; ++i) {
      key[i] = base + (s + std::min(i, keys - 1)) * source.stride;
    }
    const auto block = [&](auto queries, auto first, int r) {
      score_block<kType, queries, first>(query + r * query_stride, query_stride, key, source.stride, keys, dim,
                                         scores + r * stride + s, stride);
    };
    int r = 0;
    if (rows >= kRows) {
      block(Count<kRows>(), Count<true>(), 0);
      for (r = kRows; r + kRows <= rows; r += kRows) block(Count<kRows>(), Count<false>(), r);
    } else {
      block(Count<1>(), Count<true>(), 0);
      r = 1;
    }
    for (; r < rows; ++r) block(Count<1>(), Count<false>(), r);
  }
}

// kQueries rows of sums over kVectors vectors of the values' columns.
template <dhyan_dtype kType, int kQueries, int kVectors, bool kFirst>
HWY_INLINE void value_block(const float* weights, std::int64_t stride, const typename Element<kType>::Stored* value,
                            std::int64_t value_stride, int count, float* sums, std::int64_t sum_stride) {
  const F32 d;
  F32Vector sum[kQueries][kVectors];
#pragma GCC unroll 4
  for (int r = 0; r < kQueries; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Load(d, sums + r * sum_stride + v * kLanes);
  }
  for (int s = 0; s < count; ++s, value += value_stride) {
    F32Vector x[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      x[v] = load<kType>(value + v * kLanes);
      if constexpr (kFirst) prefetch_later(value + v * kLanes, value_stride);
    }
#pragma GCC unroll 4
    for (int r = 0; r < kQueries; ++r) {
      const F32Vector w = hn::Set(d, weights[r * stride + s]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(w, x[v], sum[r][v]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kQueries; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) hn::Store(sum[r][v], d, sums + r * sum_stride + v * kLanes);
  }
}

template <dhyan_dtype kType, int kQueries, bool kFirst>
HWY_INLINE void value_rows(const float* weights, std::int64_t stride, const Source& source, int count, int dim, float* sums,
                           std::int64_t sum_stride) {
  using T = typename Element<kType>::Stored;
  const F32 d;
  const T* value = static_cast<const T*>(source.data);
  int i = 0;
  for (; i + kSlice * kLanes <= dim; i += kSlice * kLanes) {
    value_block<kType, kQueries, kSlice, kFirst>(weights, stride, value + i, source.stride, count, sums + i, sum_stride);
  }
  for (; i + kLanes <= dim; i += kLanes) {
    value_block<kType, kQueries, 1, kFirst>(weights, stride, value + i, source.stride, count, sums + i, sum_stride);
  }
  if (i == dim) return;
  for (int s = 0; s < count; ++s) {
    const F32Vector x = load_first<kType>(value + s * source.stride + i, dim - i);
    for (int r = 0; r < kQueries; ++r) {
      float* at = sums + r * sum_stride + i;
      hn::Store(hn::MulAdd(hn::Set(d, weights[r * stride + s]), x, hn::Load(d, at)), d, at);
    }
  }
}

template <dhyan_dtype kType>
void values_of(const float* weights, std::int64_t stride, int rows, const Source& source, int count, int dim, float* sums,
               std::int64_t sum_stride) {
  const auto block = [&](auto queries, auto first, int r) {
    value_rows<kType, queries, first>(weights + r * stride, stride, source, count, dim, sums + r * sum_stride, sum_stride);
  };
  int r = 0;
  if (rows >= kRows) {
    block(Count<kRows>(), Count<true>(), 0);
    for (r = kRows; r + kRows <= rows; r += kRows) block(Count<kRows>(), Count<false>(), r);
  } else {
    block(Count<1>(), Count<true>(), 0);
    r = 1;
  }
  for (; r < rows; ++r) block(Count<1>(), Count<false>(), r);
}

void scores(const float* query, std::int64_t query_stride, int rows, const Source& key, int count, int dim, float* scores,
            std::int64_t stride) {
  switch (key.dtype) {
    case DHYAN_F32:
      return scores_of<DHYAN_F32>(query, query_stride, rows, key, count, dim, scores, stride);
    case DHYAN_F16:
      return scores_of<DHYAN_F16>(query, query_stride, rows, key, count, dim, scores, stride);
    default:
      return scores_of<DHYAN_BF16>(query, query_stride, rows, key, count, dim, scores, stride);
  }
}

void values(const float* weights, std::int64_t stride, int rows, const Source& value, int count, int dim, float* sums,
            std::int64_t sum_stride) {
  switch (value.dtype) {
    case DHYAN_F32:
      return values_of<DHYAN_F32>(weights, stride, rows, value, count, dim, sums, sum_stride);
    case DHYAN_F16:
      return values_of<DHYAN_F16>(weights, stride, rows, value, count, dim, sums, sum_stride);
    default:
      return values_of<DHYAN_BF16>(weights, stride, rows, value, count, dim, sums, sum_stride);
  }
}

void add(const float* more, float factor, int count, float* sums) {
  const F32 d;
  const F32Vector factors = hn::Set(d, factor);
  for (int i = 0; i < count; i += kLanes)
    hn::Store(hn::MulAdd(factors, hn::Load(d, more + i), hn::Load(d, sums + i)), d, sums + i);
}

}  // namespace

const StreamKernels& stream_kernels_of_target() {
  static constexpr StreamKernels kernels = {
      kLanes == 16 ? "avx3" : kLanes == 8 ? "avx2" : "sse4", DHYAN_F32, scores, values, widen_row, add};
  return kernels;
}
}  // namespace HWY_NAMESPACE
}  // namespace dhyan::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dhyan::cpu {
HWY_EXPORT(stream_kernels_of_target);

const StreamKernels& stream_kernels_on(std::int64_t targets) {
  return pick(HWY_DISPATCH_TABLE(stream_kernels_of_target), targets)();
}

}  // namespace dhyan::cpu
#endif

// SPDX-License-Identifier: Apache-2.0
#include "cpu/logits.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "core/convert.hpp"
#include "cpu/dispatch.hpp"
#include "cpu/target.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/logits.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/load-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace dhyan::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kLanes = static_cast<int>(hn::MaxLanes(F32()));
constexpr float kHidden = -std::numeric_limits<float>::infinity();

// Where row r of a tile stands.
struct Row {
  std::int64_t head, token;
};
Row row_of(const Tile& tile, int r) { return {tile.n + r % tile.heads, tile.t + r / tile.heads}; }

// Calls body(vector, column) over the columns of a row, whole vectors in place and the last ones through a copy.
template <class Body>
HWY_INLINE void over_columns(float* row, int columns, const Body& body) {
  const F32 d;
  int c = 0;
  for (; c + kLanes <= columns; c += kLanes) hn::StoreU(body(hn::LoadU(d, row + c), c), d, row + c);
  if (c == columns) return;
  HWY_ALIGN float rest[kLanes] = {};
  std::memcpy(rest, row + c, sizeof(float) * static_cast<std::size_t>(columns - c));
  hn::Store(body(hn::Load(d, rest), c), d, rest);
  std::memcpy(row + c, rest, sizeof(float) * static_cast<std::size_t>(columns - c));
}

// e^-2|x| - 1 and e^-2|x|, each to a few ulp: 2^n (1 + q) with the 1 kept apart.
struct Exponential {
  F32Vector minus_one, whole;
};
HWY_INLINE Exponential exp_of_twice(F32Vector x) {
  const F32 d;
  const hn::RebindToSigned<F32> integers;
  constexpr float kLog2e = 1.44269504f, kLn2High = 0.693145752f, kLn2Low = 1.42860677e-6f;
  const auto y = hn::Max(hn::Mul(hn::Abs(x), hn::Set(d, -2.0f)), hn::Set(d, -80.0f));
  const auto n = hn::Round(hn::Mul(y, hn::Set(d, kLog2e)));
  auto f = hn::NegMulAdd(n, hn::Set(d, kLn2High), y);
  f = hn::NegMulAdd(n, hn::Set(d, kLn2Low), f);
  // e^f - 1 = f + f^2 (1/2 + f/6 + ...), |f| <= ln2 / 2
  auto p = hn::Set(d, 1.0f / 5040);
  p = hn::MulAdd(p, f, hn::Set(d, 1.0f / 720));
  p = hn::MulAdd(p, f, hn::Set(d, 1.0f / 120));
  p = hn::MulAdd(p, f, hn::Set(d, 1.0f / 24));
  p = hn::MulAdd(p, f, hn::Set(d, 1.0f / 6));
  p = hn::MulAdd(p, f, hn::Set(d, 0.5f));
  p = hn::MulAdd(hn::Mul(p, f), f, f);
  const auto power = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(integers, n), hn::Set(integers, 127))));
  return {hn::MulAdd(power, p, hn::Sub(power, hn::Set(d, 1.0f))), hn::MulAdd(power, p, power)};
}

// cap * tanh(x / cap), and the derivative 4 e / (1 + e)^2 with e = exp(-2 |x / cap|).
HWY_INLINE F32Vector soft_cap(F32Vector x, F32Vector cap, float* slope) {
  const F32 d;
  const auto ratio = hn::Div(x, cap);
  const auto e = exp_of_twice(ratio);
  const auto two = hn::Set(d, 2.0f);
  const auto inverse = hn::Div(two, hn::Add(e.minus_one, two));
  const auto tanh = hn::Mul(hn::Mul(e.minus_one, inverse), hn::Set(d, -0.5f));
  const auto nan = hn::IsNaN(ratio);
  if (slope) hn::StoreU(hn::IfThenElse(nan, ratio, hn::Mul(e.whole, hn::Mul(inverse, inverse))), d, slope);
  return hn::IfThenElse(nan, ratio, hn::Mul(cap, hn::CopySign(tanh, ratio)));
}

void cap_row(float* row, int columns, float cap, float* slope) {
  const auto caps = hn::Set(F32(), cap);
  if (!slope) {
    over_columns(row, columns, [&](F32Vector x, int) HWY_ATTR { return soft_cap(x, caps, nullptr); });
    return;
  }
  HWY_ALIGN float slopes[kLanes];
  over_columns(row, columns, [&](F32Vector x, int c) HWY_ATTR {
    const auto y = soft_cap(x, caps, slopes);
    std::memcpy(slope + c, slopes, sizeof(float) * static_cast<std::size_t>(std::min(kLanes, columns - c)));
    return y;
  });
}

template <class T, class Load>
HWY_INLINE void add_row(float* row, const T* bias, int columns, const Load& load) {
  const F32 d;
  int c = 0;
  for (; c + kLanes <= columns; c += kLanes) hn::StoreU(hn::Add(hn::LoadU(d, row + c), load(bias + c)), d, row + c);
  if (c == columns) return;
  HWY_ALIGN T rest[kLanes] = {};
  HWY_ALIGN float wide[kLanes];
  std::memcpy(rest, bias + c, sizeof(T) * static_cast<std::size_t>(columns - c));
  hn::Store(load(rest), d, wide);
  for (int i = c; i < columns; ++i) row[i] += wide[i - c];
}

// A finite f64 stays finite: a row whose keys all carry a large negative one is not a masked row.
float narrowed(double x) {
  constexpr double kMost = std::numeric_limits<float>::max();
  return static_cast<float>(std::isinf(x) ? x : std::clamp(x, -kMost, kMost));
}

void add_bias(float* row, const void* bias, dhyan_dtype dtype, std::int64_t offset, bool one_for_all, int columns) {
  if (one_for_all) {
    const auto value = hn::Set(F32(), narrowed(core::load(bias, dtype, offset)));
    over_columns(row, columns, [&](F32Vector x, int) HWY_ATTR { return hn::Add(x, value); });
  } else if (dtype == DHYAN_F32) {
    add_row(row, static_cast<const float*>(bias) + offset, columns, load_f32);
  } else if (dtype == DHYAN_F16) {
    add_row(row, static_cast<const std::uint16_t*>(bias) + offset, columns, load_f16);
  } else if (dtype == DHYAN_BF16) {
    add_row(row, static_cast<const std::uint16_t*>(bias) + offset, columns, load_bf16);
  } else {
    for (int c = 0; c < columns; ++c) row[c] += narrowed(static_cast<const double*>(bias)[offset + c]);
  }
}

// row[c] -= slope * |first + c|
void add_alibi(float* row, float slope, std::int64_t first, int columns) {
  const F32 d;
  const auto slopes = hn::Set(d, slope);
  const auto lanes = hn::Iota(d, 0.0f);
  over_columns(row, columns, [&](F32Vector x, int c) HWY_ATTR {
    const auto distance = hn::Abs(hn::Add(hn::Set(d, static_cast<float>(first + c)), lanes));
    return hn::Sub(x, hn::Mul(slopes, distance));
  });
}

void hide_masked(float* row, const std::uint8_t* mask, int columns) {
  const F32 d;
  const hn::Rebind<std::uint8_t, F32> bytes;
  const hn::RebindToSigned<F32> whole;
  const auto hidden = hn::Set(d, kHidden);
  HWY_ALIGN std::uint8_t rest[kLanes];
  over_columns(row, columns, [&](F32Vector x, int c) HWY_ATTR {
    const std::uint8_t* from = mask + c;
    if (columns - c < kLanes) {
      std::memcpy(rest, from, static_cast<std::size_t>(columns - c));
      from = rest;
    }
    const auto keep = hn::Ne(hn::PromoteTo(whole, hn::LoadU(bytes, from)), hn::Zero(whole));
    return hn::IfThenElse(hn::RebindMask(d, keep), x, hidden);
  });
}

void finish(const Tile& tile, float* scores, std::int64_t stride, float* softcap_slope) {
  if (tile.columns == 0) return;  // a bias without keys has no element to read
  const core::Problem& p = tile.problem;
  const bool ranges = p.causal != DHYAN_CAUSAL_OFF || p.window_left >= 0 || p.window_right >= 0 ||
                      tile.s + tile.columns > tile.sequence.key_count;
  for (int r = 0; r < tile.rows; ++r) {
    const auto [n, t] = row_of(tile, r);
    float* row = scores + r * stride;
    if (p.softcap > 0) {
      cap_row(row, tile.columns, static_cast<float>(p.softcap), softcap_slope ? softcap_slope + r * stride : nullptr);
    }
    if (p.bias.present()) {
      const auto& s = p.bias.strides;
      add_bias(row, tile.buffers.bias, p.bias.dtype, tile.b * s[0] + n * s[1] + t * s[2] + tile.s * s[3], s[3] == 0,
               tile.columns);
    }
    if (p.alibi_slopes.present()) {
      const auto* slopes = static_cast<const float*>(tile.buffers.alibi_slopes);
      add_alibi(row, slopes[tile.b * p.alibi_slopes.strides[0] + n * p.alibi_slopes.strides[1]],
                tile.s - (t + tile.sequence.shift), tile.columns);
    }
    if (p.mask.present()) {
      const auto& s = p.mask.strides;
      const auto* mask =
          static_cast<const std::uint8_t*>(tile.buffers.mask) + tile.b * s[0] + n * s[1] + t * s[2] + tile.s * s[3];
      if (s[3] != 0) {
        hide_masked(row, mask, tile.columns);
      } else if (!*mask) {
        std::fill(row, row + tile.columns, kHidden);
      }
    }
    if (ranges) {
      const core::KeyRange visible = core::visible_keys(p, tile.sequence, t);
      const std::int64_t columns = tile.columns;
      const std::int64_t begin = std::clamp<std::int64_t>(visible.begin - tile.s, 0, columns);
      const std::int64_t end = std::clamp<std::int64_t>(visible.end - tile.s, begin, columns);
      std::fill(row, row + begin, kHidden);
      std::fill(row + end, row + columns, kHidden);
    }
  }
}

using U64 = hn::Repartition<std::uint64_t, F32>;
using Counters = hn::Vec<U64>;
constexpr int kCounters = kLanes / 2;

HWY_INLINE Counters product(Counters a, std::uint32_t b) {
  const hn::RebindToUnsigned<F32> words;
  return hn::MulEven(hn::BitCast(words, a), hn::Set(words, b));
}

// Philox of kCounters counters at once, one to each 64-bit lane; only the low halves of lanes count. Writes 4 * kCounters
// words: lane 2 i holds counter i, lane 2 i + 1 counter i + kCounters / 2, so that 128-bit blocks come out in order.
HWY_INLINE void philox(std::uint64_t key, std::uint32_t first, std::uint32_t t, std::uint32_t n, std::uint32_t b,
                       std::uint32_t* out) {
  const U64 d;
  const hn::RebindToUnsigned<F32> words;
  const auto lane = hn::Iota(d, 0);
  const auto order = hn::Add(hn::ShiftRight<1>(lane), hn::Mul(hn::And(lane, hn::Set(d, 1)), hn::Set(d, kCounters / 2)));
  auto c0 = hn::Add(order, hn::Set(d, first));
  auto c1 = hn::Set(d, t), c2 = hn::Set(d, n), c3 = hn::Set(d, b);
  std::uint32_t low = static_cast<std::uint32_t>(key), high = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const auto even = product(c0, 0xD2511F53), odd = product(c2, 0xCD9E8D57);
    c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(odd), c1), hn::Set(d, low));
    c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(even), c3), hn::Set(d, high));
    c1 = odd;
    c3 = even;
    low += 0x9E3779B9;
    high += 0xBB67AE85;
  }
  const auto low_half = hn::Set(d, 0xFFFFFFFF);
  const auto c01 = hn::Or(hn::And(c0, low_half), hn::ShiftLeft<32>(c1));
  const auto c23 = hn::Or(hn::And(c2, low_half), hn::ShiftLeft<32>(c3));
  hn::StoreU(hn::BitCast(words, hn::InterleaveLower(d, c01, c23)), words, out);
  hn::StoreU(hn::BitCast(words, hn::InterleaveUpper(d, c01, c23)), words, out + kLanes);
}

void dropout(const Tile& tile, float* weights, std::int64_t stride) {
  constexpr int kChunk = 256;
  const F32 d;
  const hn::RebindToUnsigned<F32> integers;
  const core::Problem& p = tile.problem;
  if (p.dropout.threshold == 0) return;
  const bool none_kept = p.dropout.threshold > 0xFFFFFFFF;
  const auto threshold = hn::Set(integers, static_cast<std::uint32_t>(none_kept ? 0 : p.dropout.threshold));
  const auto kept = hn::Set(d, none_kept ? 0.0f : static_cast<float>(1 / (1 - p.dropout.probability)));
  HWY_ALIGN std::uint32_t words[kChunk + 4 * kLanes];
  for (int r = 0; r < tile.rows; ++r) {
    const auto [n, t] = row_of(tile, r);
    float* row = weights + r * stride;
    for (int begin = 0; begin < tile.columns; begin += kChunk) {
      const int count = std::min(kChunk, tile.columns - begin);
      const std::uint64_t position = static_cast<std::uint64_t>(tile.s + begin + p.key_origin);
      const int ahead = static_cast<int>(position % 4);  // words of the first counter that lie before this chunk
      for (int w = 0; w < ahead + count; w += 4 * kCounters) {
        philox(p.dropout.key, static_cast<std::uint32_t>(position / 4 + static_cast<std::uint64_t>(w / 4)),
               static_cast<std::uint32_t>(t + p.query_origin), static_cast<std::uint32_t>(n + p.head_origin),
               static_cast<std::uint32_t>(tile.b + p.batch_origin), words + w);
      }
      over_columns(row + begin, count, [&](F32Vector x, int c) HWY_ATTR {
        const auto dropped = hn::Lt(hn::LoadU(integers, words + ahead + c), threshold);
        return hn::IfThenZeroElse(hn::RebindMask(d, dropped), hn::Mul(x, kept));
      });
      if (none_kept) std::fill(row + begin, row + begin + count, 0.0f);
    }
  }
}

}  // namespace

const LogitKernels& logit_kernels_of_target() {
  static constexpr LogitKernels kernels = {finish, dropout};
  return kernels;
}
}  // namespace HWY_NAMESPACE
}  // namespace dhyan::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dhyan::cpu {
HWY_EXPORT(logit_kernels_of_target);

const LogitKernels& logit_kernels_on(std::int64_t targets) {
  return pick(HWY_DISPATCH_TABLE(logit_kernels_of_target), targets)();
}

namespace {
const LogitKernels& best() {
  static const LogitKernels& kernels = logit_kernels_on(highway_targets());
  return kernels;
}
}  // namespace

bool has_logit_terms(const core::Problem& problem) {
  return problem.softcap > 0 || problem.bias.present() || problem.mask.present() || problem.alibi_slopes.present();
}

void finish_logits(const Tile& tile, float* scores, std::int64_t stride, float* softcap_slope) {
  best().finish(tile, scores, stride, softcap_slope);
}

void apply_dropout(const Tile& tile, float* weights, std::int64_t stride) { best().dropout(tile, weights, stride); }

}  // namespace dhyan::cpu
#endif

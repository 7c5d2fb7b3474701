// SPDX-License-Identifier: Apache-2.0
// What the kernels of naive attention share: element types, sums over a block, the logits of a row.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "core/philox.hpp"
#include "core/sequence.hpp"
#include "cuda/tile/element.cuh"

namespace dhyan::cuda::naive {

inline constexpr int kWarp = 32;
inline constexpr int kMaxThreads = 256;
inline constexpr std::int64_t kMaxBlocks = std::int64_t{1} << 20;  // blocks take several rows beyond it

template <class T>
struct Traits;
template <>
struct Traits<double> {
  using Real = double;
  static constexpr const char* name = "f64";
};
template <>
struct Traits<float> {
  using Real = float;
  static constexpr const char* name = "f32";
};
template <>
struct Traits<__half> {
  using Real = float;
  static constexpr const char* name = "f16";
};
template <>
struct Traits<__nv_bfloat16> {
  using Real = float;
  static constexpr const char* name = "bf16";
};

__device__ inline double widened(double x) { return x; }
__device__ inline float widened(float x) { return x; }
__device__ inline float widened(__half x) { return __half2float(x); }
__device__ inline float widened(__nv_bfloat16 x) { return __bfloat162float(x); }

__device__ inline void round_to(double x, double& to) { to = x; }
__device__ inline void round_to(float x, float& to) { to = x; }
__device__ inline void round_to(float x, __half& to) { to = __float2half_rn(x); }
__device__ inline void round_to(float x, __nv_bfloat16& to) { to = __float2bfloat16_rn(x); }

template <class Real>
__device__ Real negative_infinity() {
  return -static_cast<Real>(INFINITY);
}

// The block's threads agree on combine of all their values; `shared` holds a value per warp.
template <class Real, class Combine>
__device__ Real reduce(Real x, Real* shared, const Combine& combine) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) x = combine(x, __shfl_xor_sync(~0u, x, distance));
  const int warps = blockDim.x / kWarp;
  if (warps == 1) return x;
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = x;
  __syncthreads();
  x = shared[0];
  for (int i = 1; i < warps; ++i) x = combine(x, shared[i]);
  __syncthreads();
  return x;
}

// One row of the scores, the i-th of [b][n][t], and what the terms of its logits need.
template <class Real>
struct Row {
  std::int64_t b, n, t;
  core::Sequence sequence;
  bool held;  // by the sequence
  core::KeyRange visible;
  std::int64_t bias, mask;  // offsets of the row
  Real slope;

  // Of an operand with strides batch, head, token.
  __device__ std::int64_t at(const core::Operand& x) const {
    return b * x.strides[0] + n * x.strides[1] + (sequence.query_begin + t) * x.strides[2];
  }
};

template <class Real>
__device__ Row<Real> row_of(const core::Problem& p, const core::Buffers& buffers, std::int64_t i) {
  Row<Real> row{};
  row.t = i % p.query_length;
  row.n = i / p.query_length % p.query_heads;
  row.b = i / p.query_length / p.query_heads;
  row.sequence = core::sequence(p, buffers, row.b);
  row.held = row.t < row.sequence.query_count;
  row.visible = core::visible_keys(p, row.sequence, row.t);
  const auto at = [&](const core::Operand& x) { return row.b * x.strides[0] + row.n * x.strides[1] + row.t * x.strides[2]; };
  row.bias = at(p.bias);
  row.mask = at(p.mask);
  if (p.alibi_slopes.present()) {
    const auto& strides = p.alibi_slopes.strides;
    row.slope = static_cast<const float*>(buffers.alibi_slopes)[row.b * strides[0] + row.n * strides[1]];
  }
  return row;
}

template <class Real>
struct Logit {
  Real value;
  Real slope;  // d value / d score
};

// -inf for a key that the row does not see.
template <class Real>
__device__ Logit<Real> logit(const core::Problem& p, const core::Buffers& buffers, const Row<Real>& row, Real score,
                             std::int64_t s) {
  if (s < row.visible.begin || s >= row.visible.end) return {negative_infinity<Real>(), 0};
  if (p.mask.present() && !static_cast<const std::uint8_t*>(buffers.mask)[row.mask + s * p.mask.strides[3]]) {
    return {negative_infinity<Real>(), 0};
  }
  Logit<Real> x{score, 1};
  if (p.softcap > 0) {
    const auto cap = static_cast<Real>(p.softcap);
    const Real bent = tanh(score / cap);
    x = {cap * bent, (1 - bent) * (1 + bent)};
  }
  if (p.bias.present()) x.value += tile::element<Real>(buffers.bias, p.bias.dtype, row.bias + s * p.bias.strides[3]);
  if (p.alibi_slopes.present()) {
    const std::int64_t distance = s - row.t - row.sequence.shift;
    x.value -= row.slope * static_cast<Real>(distance < 0 ? -distance : distance);
  }
  return x;
}

// Calls body with a value of the type.
template <class Body>
void with_type(dhyan_dtype dtype, const Body& body) {
  switch (dtype) {
    case DHYAN_F64:
      return body(double{});
    case DHYAN_F32:
      return body(float{});
    case DHYAN_F16:
      return body(__half{});
    default:
      return body(__nv_bfloat16{});
  }
}

// Calls body with a value of the type that scores of this dtype have.
template <class Body>
void with_real(dhyan_dtype dtype, const Body& body) {
  if (dtype == DHYAN_F64) return body(double{});
  return body(float{});
}

template <class T>
std::string kernel_name(const char* step) {
  return std::string("naive ") + step + "<" + Traits<T>::name + ">";
}

// Threads for a row of keys.
inline dim3 row_threads(std::int64_t keys) {
  return dim3(static_cast<unsigned>(std::clamp<std::int64_t>((keys + 255) / 256 * kWarp, kWarp, kMaxThreads)));
}

// Blocks for so many items, `each` in a block.
inline dim3 grid_of(std::int64_t items, std::int64_t each) {
  return dim3(static_cast<unsigned>(std::min((items + each - 1) / each, kMaxBlocks)));
}

}  // namespace dhyan::cuda::naive

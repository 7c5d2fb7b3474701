// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cfloat>
#include <string>

#include "core/philox.hpp"
#include "core/sequence.hpp"
#include "cuda/naive/kernels.hpp"
#include "cuda/runtime/launch.hpp"

namespace dhyan::cuda::naive {
namespace {

constexpr int kWarp = 32;
constexpr int kMaxThreads = 256;
constexpr std::int64_t kMaxBlocks = std::int64_t{1} << 20;  // blocks take several rows beyond it

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

__device__ double widened(double x) { return x; }
__device__ float widened(float x) { return x; }
__device__ float widened(__half x) { return __half2float(x); }
__device__ float widened(__nv_bfloat16 x) { return __bfloat162float(x); }

__device__ void round_to(double x, double& to) { to = x; }
__device__ void round_to(float x, float& to) { to = x; }
__device__ void round_to(float x, __half& to) { to = __float2half_rn(x); }
__device__ void round_to(float x, __nv_bfloat16& to) { to = __float2bfloat16_rn(x); }

template <class Real>
__device__ Real negative_infinity() {
  return -static_cast<Real>(INFINITY);
}

// A finite f64 stays finite: a row whose keys all carry a large negative one is not a masked row.
__device__ double narrowed(double x, double) { return x; }
__device__ float narrowed(double x, float) {
  return static_cast<float>(isinf(x) ? x : fmin(fmax(x, -static_cast<double>(FLT_MAX)), static_cast<double>(FLT_MAX)));
}

template <class Real>
__device__ Real bias_at(const void* bias, dhyan_dtype dtype, std::int64_t i) {
  switch (dtype) {
    case DHYAN_F64:
      return narrowed(static_cast<const double*>(bias)[i], Real{});
    case DHYAN_F32:
      return static_cast<const float*>(bias)[i];
    case DHYAN_F16:
      return __half2float(static_cast<const __half*>(bias)[i]);
    default:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(bias)[i]);
  }
}

// The larger; a NaN wins.
template <class Real>
__device__ Real higher(Real a, Real b) {
  return isnan(a) || !(b > a || isnan(b)) ? a : b;
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

template <class T>
__global__ void __launch_bounds__(kMaxThreads)
    gather_rows(const __grid_constant__ core::Problem p, const __grid_constant__ core::Buffers buffers, const Gather g) {
  const auto factor = static_cast<typename Traits<T>::Real>(g.factor);
  const std::int64_t all = p.batch * g.heads * g.rows;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y; i < all;
       i += std::int64_t{gridDim.x} * blockDim.y) {
    const std::int64_t row = i % g.rows;
    const std::int64_t head = i / g.rows % g.heads;
    const std::int64_t b = i / g.rows / g.heads;
    const core::Sequence sequence = core::sequence(p, buffers, b);
    const std::int64_t begin = g.queries ? sequence.query_begin : sequence.key_begin;
    const bool held = row < (g.queries ? sequence.query_count : sequence.key_count);
    const T* from = static_cast<const T*>(g.data) + b * g.operand.strides[0] + (begin + row) * g.operand.strides[1] +
                    head * g.operand.strides[2];
    T* to = static_cast<T*>(g.to) + i * g.padded;
    for (std::int64_t c = threadIdx.x; c < g.padded; c += blockDim.x) {
      T x{};
      if (held && c < g.width) round_to(widened(from[c]) * factor, x);
      to[c] = x;
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kMaxThreads)
    scatter_rows(const __grid_constant__ core::Problem p, const __grid_constant__ core::Buffers buffers, const T* all_from,
                 std::int64_t padded) {
  const std::int64_t all = p.batch * p.query_length * p.query_heads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y; i < all;
       i += std::int64_t{gridDim.x} * blockDim.y) {
    const std::int64_t n = i % p.query_heads;
    const std::int64_t t = i / p.query_heads % p.query_length;
    const std::int64_t b = i / p.query_heads / p.query_length;
    const core::Sequence sequence = core::sequence(p, buffers, b);
    const bool held = t < sequence.query_count;
    if (!held && p.packed) continue;
    const T* from = all_from + ((b * p.query_heads + n) * p.query_length + t) * padded;
    T* to = static_cast<T*>(buffers.out) + b * p.out.strides[0] + (sequence.query_begin + t) * p.out.strides[1] +
            n * p.out.strides[2];
    for (std::int64_t c = threadIdx.x; c < p.value_head_dim; c += blockDim.x) to[c] = held ? from[c] : T{};
  }
}

template <class T>
__global__ void __launch_bounds__(kMaxThreads)
    blank_rows(const __grid_constant__ core::Problem p, const __grid_constant__ core::Buffers buffers) {
  using Real = typename Traits<T>::Real;
  const std::int64_t all = p.query_tokens * p.query_heads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y; i < all;
       i += std::int64_t{gridDim.x} * blockDim.y) {
    const std::int64_t n = i % p.query_heads;
    const std::int64_t token = i / p.query_heads;
    T* to = static_cast<T*>(buffers.out) + token * p.out.strides[1] + n * p.out.strides[2];
    for (std::int64_t c = threadIdx.x; c < p.value_head_dim; c += blockDim.x) to[c] = T{};
    if (p.lse.present() && threadIdx.x == 0) {
      static_cast<Real*>(buffers.lse)[n * p.lse.strides[1] + token * p.lse.strides[2]] = negative_infinity<Real>();
    }
  }
}

// What the terms of one row's logits need.
template <class Real>
struct Row {
  std::int64_t b, n, t;
  core::Sequence sequence;
  core::KeyRange visible;
  std::int64_t bias, mask;  // offsets of the row
  Real slope;
};

template <class Real>
__device__ Row<Real> row_of(const core::Problem& p, const core::Buffers& buffers, std::int64_t b, std::int64_t n,
                            std::int64_t t, const core::Sequence& sequence) {
  const auto at = [&](const core::Operand& x) { return b * x.strides[0] + n * x.strides[1] + t * x.strides[2]; };
  Row<Real> row{b, n, t, sequence, core::visible_keys(p, sequence, t), at(p.bias), at(p.mask), 0};
  if (p.alibi_slopes.present()) {
    const auto& strides = p.alibi_slopes.strides;
    row.slope = static_cast<const float*>(buffers.alibi_slopes)[b * strides[0] + n * strides[1]];
  }
  return row;
}

// -inf for a key that the row does not see.
template <class Real>
__device__ Real logit(const core::Problem& p, const core::Buffers& buffers, const Row<Real>& row, Real score, std::int64_t s) {
  if (s < row.visible.begin || s >= row.visible.end) return negative_infinity<Real>();
  if (p.mask.present() && !static_cast<const std::uint8_t*>(buffers.mask)[row.mask + s * p.mask.strides[3]]) {
    return negative_infinity<Real>();
  }
  Real x = score;
  if (p.softcap > 0) {
    const auto cap = static_cast<Real>(p.softcap);
    x = cap * tanh(x / cap);
  }
  if (p.bias.present()) x += bias_at<Real>(buffers.bias, p.bias.dtype, row.bias + s * p.bias.strides[3]);
  if (p.alibi_slopes.present()) {
    const std::int64_t distance = s - row.t - row.sequence.shift;
    x -= row.slope * static_cast<Real>(distance < 0 ? -distance : distance);
  }
  return x;
}

template <class T>
__global__ void __launch_bounds__(kMaxThreads)
    softmax_rows(const __grid_constant__ core::Problem p, const __grid_constant__ core::Buffers buffers,
                 typename Traits<T>::Real* all_scores, std::int64_t stride) {
  using Real = typename Traits<T>::Real;
  __shared__ Real shared[kMaxThreads / kWarp];
  const auto sum_of = [](Real a, Real b) { return a + b; };
  const auto higher_of = [](Real a, Real b) { return higher(a, b); };
  const std::int64_t keys = p.key_length;
  const std::int64_t all = p.batch * p.query_heads * p.query_length;
  for (std::int64_t i = blockIdx.x; i < all; i += gridDim.x) {
    const std::int64_t t = i % p.query_length;
    const std::int64_t n = i / p.query_length % p.query_heads;
    const std::int64_t b = i / p.query_length / p.query_heads;
    const core::Sequence sequence = core::sequence(p, buffers, b);
    const bool held = t < sequence.query_count;
    Real* scores = all_scores + i * stride;
    T* weights = reinterpret_cast<T*>(scores);
    Real* lse = nullptr;
    if (p.lse.present() && threadIdx.x == 0 && (held || !p.packed)) {
      lse = static_cast<Real*>(buffers.lse) + b * p.lse.strides[0] + n * p.lse.strides[1] +
            (sequence.query_begin + t) * p.lse.strides[2];
    }

    const Row<Real> row = row_of<Real>(p, buffers, b, n, t, sequence);
    const Real sink =
        p.sink.present() ? static_cast<const float*>(buffers.sink)[n * p.sink.strides[0]] : negative_infinity<Real>();
    Real highest = sink;
    if (held) {
      for (std::int64_t s = threadIdx.x; s < keys; s += blockDim.x) {
        const Real x = logit(p, buffers, row, scores[s], s);
        scores[s] = x;
        highest = higher(highest, x);
      }
      highest = reduce(highest, shared, higher_of);
    }
    if (!held || highest == negative_infinity<Real>()) {  // the whole block agrees
      __syncthreads();                                    // weights overlap scores that others wrote
      for (std::int64_t s = threadIdx.x; s < keys; s += blockDim.x) weights[s] = T{};
      if (lse) *lse = negative_infinity<Real>();
      __syncthreads();
      continue;
    }
    Real sum = 0;
    for (std::int64_t s = threadIdx.x; s < keys; s += blockDim.x) sum += exp(scores[s] - highest);
    sum = reduce(sum, shared, sum_of) + exp(sink - highest);
    if (lse) *lse = highest + log(sum);
    const Real kept = static_cast<Real>(1 / (1 - p.dropout.probability)) / sum;
    // A 16-bit weight lies over the scores of columns before its own, which this round or an earlier one has read.
    for (std::int64_t first = 0; first < keys; first += blockDim.x) {
      const std::int64_t s = first + threadIdx.x;
      Real weight = 0;
      if (s < keys) {
        weight = exp(scores[s] - highest) * kept;
        if (p.has_dropout() && !core::keeps(p, b, n, t, s)) weight = 0;
      }
      if (sizeof(T) != sizeof(Real)) __syncthreads();
      if (s < keys) round_to(weight, weights[s]);
    }
    __syncthreads();
  }
}

// Threads along a row of `width` elements, the rest of the block beside them.
dim3 row_block(std::int64_t width) {
  const int along = width > 64 ? 4 * kWarp : kWarp;
  return dim3(static_cast<unsigned>(along), static_cast<unsigned>(kMaxThreads / along));
}

dim3 row_grid(std::int64_t rows, dim3 block) {
  return dim3(static_cast<unsigned>(std::min((rows + block.y - 1) / block.y, kMaxBlocks)));
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

template <class T>
std::string kernel_name(const char* step) {
  return std::string("naive ") + step + "<" + Traits<T>::name + ">";
}

}  // namespace

void gather(const core::Problem& p, const core::Buffers& buffers, const Gather& g, cudaStream_t stream) {
  const std::int64_t rows = p.batch * g.heads * g.rows;
  if (rows == 0 || g.padded == 0) return;
  const dim3 block = row_block(g.padded);
  with_type(p.dtype, [&]<class T>(T) {
    launch(kernel_name<T>("gather").c_str(), gather_rows<T>, row_grid(rows, block), block, 0, stream, p, buffers, g);
  });
}

void softmax(const core::Problem& p, const core::Buffers& buffers, void* scores, std::int64_t stride, cudaStream_t stream) {
  const std::int64_t rows = p.batch * p.query_heads * p.query_length;
  if (rows == 0) return;
  const auto threads = std::clamp<std::int64_t>((p.key_length + 255) / 256 * kWarp, kWarp, kMaxThreads);
  const dim3 grid(static_cast<unsigned>(std::min(rows, kMaxBlocks)));
  with_type(p.dtype, [&]<class T>(T) {
    launch(kernel_name<T>("softmax").c_str(), softmax_rows<T>, grid, dim3(static_cast<unsigned>(threads)), 0, stream, p,
           buffers, static_cast<typename Traits<T>::Real*>(scores), stride);
  });
}

void scatter(const core::Problem& p, const core::Buffers& buffers, const void* from, std::int64_t padded, cudaStream_t stream) {
  const std::int64_t rows = p.batch * p.query_heads * p.query_length;
  if (rows == 0 || p.value_head_dim == 0) return;
  const dim3 block = row_block(p.value_head_dim);
  with_type(p.dtype, [&]<class T>(T) {
    launch(kernel_name<T>("scatter").c_str(), scatter_rows<T>, row_grid(rows, block), block, 0, stream, p, buffers,
           static_cast<const T*>(from), padded);
  });
}

void blank(const core::Problem& p, const core::Buffers& buffers, cudaStream_t stream) {
  const std::int64_t rows = p.query_tokens * p.query_heads;
  if (rows == 0) return;
  const dim3 block = row_block(p.value_head_dim);
  with_type(p.dtype, [&]<class T>(T) {
    launch(kernel_name<T>("blank").c_str(), blank_rows<T>, row_grid(rows, block), block, 0, stream, p, buffers);
  });
}

void load(dhyan_dtype dtype) {
  with_type(dtype, [&]<class T>(T) {
    cudaFuncAttributes attributes;
    check(cudaFuncGetAttributes(&attributes, gather_rows<T>), "loading the kernel naive gather");
    check(cudaFuncGetAttributes(&attributes, softmax_rows<T>), "loading the kernel naive softmax");
    check(cudaFuncGetAttributes(&attributes, scatter_rows<T>), "loading the kernel naive scatter");
    check(cudaFuncGetAttributes(&attributes, blank_rows<T>), "loading the kernel naive blank");
  });
}

}  // namespace dhyan::cuda::naive

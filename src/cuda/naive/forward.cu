// SPDX-License-Identifier: Apache-2.0
#include "core/convert.hpp"
#include "cuda/naive/kernels.hpp"
#include "cuda/naive/rows.cuh"
#include "cuda/runtime/launch.hpp"

namespace dhyan::cuda::naive {
namespace {

// The larger; a NaN wins.
template <class Real>
__device__ Real higher(Real a, Real b) {
  return isnan(a) || !(b > a || isnan(b)) ? a : b;
}

template <class T>
__global__ void __launch_bounds__(kMaxThreads)
    gather_rows(const __grid_constant__ core::Problem p, const __grid_constant__ core::Buffers buffers, const Rows r,
                const T* all_from, double exact_factor, T* all_to) {
  const auto factor = static_cast<typename Traits<T>::Real>(exact_factor);
  const std::int64_t all = p.batch * r.heads * r.rows;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y; i < all;
       i += std::int64_t{gridDim.x} * blockDim.y) {
    const std::int64_t row = i % r.rows;
    const std::int64_t head = i / r.rows % r.heads;
    const std::int64_t b = i / r.rows / r.heads;
    const core::Sequence sequence = core::sequence(p, buffers, b);
    const std::int64_t begin = r.queries ? sequence.query_begin : sequence.key_begin;
    const bool held = row < (r.queries ? sequence.query_count : sequence.key_count);
    const T* from = all_from + b * r.operand.strides[0] + (begin + row) * r.operand.strides[1] + head * r.operand.strides[2];
    T* to = all_to + i * r.padded;
    for (std::int64_t c = threadIdx.x; c < r.padded; c += blockDim.x) {
      T x{};
      if (held && c < r.width) round_to(widened(from[c]) * factor, x);
      to[c] = x;
    }
  }
}

// Bits: an integer of the element's size.
template <class Bits>
__global__ void __launch_bounds__(kMaxThreads)
    scatter_rows(const __grid_constant__ core::Problem p, const __grid_constant__ core::Buffers buffers, const Rows r,
                 const Bits* all_from, Bits* all_to) {
  const bool blank = all_from == nullptr;
  const std::int64_t entries = blank && p.packed ? 1 : p.batch;
  const std::int64_t rows = !blank ? r.rows : r.queries ? p.query_tokens : p.key_tokens;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y; i < entries * rows * r.heads;
       i += std::int64_t{gridDim.x} * blockDim.y) {
    const std::int64_t head = i % r.heads;
    const std::int64_t row = i / r.heads % rows;
    const std::int64_t b = i / r.heads / rows;
    std::int64_t begin = 0;
    bool held = false;
    if (!blank) {
      const core::Sequence sequence = core::sequence(p, buffers, b);
      begin = r.queries ? sequence.query_begin : sequence.key_begin;
      held = row < (r.queries ? sequence.query_count : sequence.key_count);
      if (!held && p.packed) continue;
    }
    const Bits* from = all_from + ((b * r.heads + head) * rows + row) * r.padded;
    Bits* to = all_to + b * r.operand.strides[0] + (begin + row) * r.operand.strides[1] + head * r.operand.strides[2];
    for (std::int64_t c = threadIdx.x; c < r.width; c += blockDim.x) to[c] = held ? from[c] : Bits{};
  }
}

// Packed: rows in gaps have no other kernel that writes them.
template <class Real>
__global__ void __launch_bounds__(kMaxThreads)
    blank_lse(const __grid_constant__ core::Problem p, const __grid_constant__ core::Buffers buffers) {
  const std::int64_t all = p.query_tokens * p.query_heads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < all;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    const std::int64_t at = i / p.query_tokens * p.lse.strides[1] + i % p.query_tokens * p.lse.strides[2];
    static_cast<Real*>(buffers.lse)[at] = negative_infinity<Real>();
  }
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
    const Row<Real> row = row_of<Real>(p, buffers, i);
    Real* scores = all_scores + i * stride;
    T* weights = reinterpret_cast<T*>(scores);
    Real* lse = nullptr;
    if (p.lse.present() && threadIdx.x == 0 && (row.held || !p.packed)) {
      lse = static_cast<Real*>(buffers.lse) + row.at(p.lse);
    }

    const Real sink =
        p.sink.present() ? static_cast<const float*>(buffers.sink)[row.n * p.sink.strides[0]] : negative_infinity<Real>();
    Real highest = sink;
    if (row.held) {
      for (std::int64_t s = threadIdx.x; s < keys; s += blockDim.x) {
        const Real x = logit(p, buffers, row, scores[s], s).value;
        scores[s] = x;
        highest = higher(highest, x);
      }
      highest = reduce(highest, shared, higher_of);
    }
    if (!row.held || highest == negative_infinity<Real>()) {  // the whole block agrees
      __syncthreads();                                        // weights overlap scores that others wrote
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
        if (p.has_dropout() && !core::keeps(p, row.b, row.n, row.t, s)) weight = 0;
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

// Calls body with an integer of the element's size.
template <class Body>
void with_bits(dhyan_dtype dtype, const Body& body) {
  switch (core::size_of(dtype)) {
    case 8:
      return body(std::uint64_t{});
    case 4:
      return body(std::uint32_t{});
    default:
      return body(std::uint16_t{});
  }
}

}  // namespace

void gather(const core::Problem& p, const core::Buffers& buffers, const Rows& r, const void* from, double factor, void* to,
            cudaStream_t stream) {
  const std::int64_t rows = p.batch * r.heads * r.rows;
  if (rows == 0 || r.padded == 0) return;
  const dim3 block = row_block(r.padded);
  with_type(p.dtype, [&]<class T>(T) {
    launch(kernel_name<T>("gather").c_str(), gather_rows<T>, grid_of(rows, block.y), block, 0, stream, p, buffers, r,
           static_cast<const T*>(from), factor, static_cast<T*>(to));
  });
}

void scatter(const core::Problem& p, const core::Buffers& buffers, const Rows& r, const void* from, void* to,
             cudaStream_t stream) {
  const std::int64_t tokens = r.queries ? p.query_tokens : p.key_tokens;
  const std::int64_t rows = r.heads * (from ? p.batch * r.rows : p.packed ? tokens : p.batch * tokens);
  if (rows == 0 || r.width == 0) return;
  const dim3 block = row_block(r.width);
  with_bits(p.dtype, [&]<class Bits>(Bits) {
    launch("naive scatter", scatter_rows<Bits>, grid_of(rows, block.y), block, 0, stream, p, buffers, r,
           static_cast<const Bits*>(from), static_cast<Bits*>(to));
  });
}

void softmax(const core::Problem& p, const core::Buffers& buffers, void* scores, std::int64_t stride, cudaStream_t stream) {
  const std::int64_t tokens = p.query_tokens * p.query_heads;
  if (p.packed && p.lse.present() && tokens > 0) {
    with_real(p.dtype, [&]<class Real>(Real) {
      launch(kernel_name<Real>("blank").c_str(), blank_lse<Real>, grid_of(tokens, kMaxThreads), dim3(kMaxThreads), 0, stream, p,
             buffers);
    });
  }
  const std::int64_t rows = p.batch * p.query_heads * p.query_length;
  if (rows == 0) return;
  with_type(p.dtype, [&]<class T>(T) {
    launch(kernel_name<T>("softmax").c_str(), softmax_rows<T>, grid_of(rows, 1), row_threads(p.key_length), 0, stream, p,
           buffers, static_cast<typename Traits<T>::Real*>(scores), stride);
  });
}

void load(const core::Problem& p) {
  cudaFuncAttributes attributes;
  with_type(p.dtype, [&]<class T>(T) {
    check(cudaFuncGetAttributes(&attributes, gather_rows<T>), "loading the kernel naive gather");
    check(cudaFuncGetAttributes(&attributes, softmax_rows<T>), "loading the kernel naive softmax");
  });
  with_bits(p.dtype, [&]<class Bits>(Bits) {
    check(cudaFuncGetAttributes(&attributes, scatter_rows<Bits>), "loading the kernel naive scatter");
  });
  with_real(p.dtype, [&]<class Real>(Real) {
    check(cudaFuncGetAttributes(&attributes, blank_lse<Real>), "loading the kernel naive blank");
  });
}

}  // namespace dhyan::cuda::naive

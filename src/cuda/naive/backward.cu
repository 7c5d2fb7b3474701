// SPDX-License-Identifier: Apache-2.0
#include "cuda/naive/kernels.hpp"
#include "cuda/naive/rows.cuh"
#include "cuda/runtime/launch.hpp"

namespace dhyan::cuda::naive {
namespace {

// Partial sums of a bias that are worth a thread each, and the least of terms that one takes.
constexpr std::int64_t kBiasThreads = std::int64_t{1} << 18;
constexpr std::int64_t kBiasTerms = 64;

template <class Real>
__device__ Real lse_of(const core::Problem& p, const core::Buffers& buffers, const Row<Real>& row) {
  return row.held ? static_cast<const Real*>(buffers.lse)[row.at(p.lse)] : negative_infinity<Real>();
}

__device__ double warp_sum(double x) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) x += __shfl_xor_sync(~0u, x, distance);
  return x;
}

// One warp per row.
template <class Real>
__global__ void __launch_bounds__(kMaxThreads)
    delta_rows(const __grid_constant__ core::Problem p, const __grid_constant__ core::Buffers buffers, Real* delta) {
  const std::int64_t all = p.batch * p.query_heads * p.query_length;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y; i < all;
       i += std::int64_t{gridDim.x} * blockDim.y) {
    const Row<Real> row = row_of<Real>(p, buffers, i);
    double sum = 0;
    if (lse_of(p, buffers, row) != negative_infinity<Real>()) {
      const std::int64_t token = row.sequence.query_begin + row.t;
      const auto at = [&](const core::Operand& x) {
        return row.b * x.strides[0] + token * x.strides[1] + row.n * x.strides[2];
      };
      for (std::int64_t h = threadIdx.x; h < p.value_head_dim; h += kWarp) {
        sum += static_cast<double>(tile::element<Real>(buffers.out, p.out.dtype, at(p.out) + h) *
                                   tile::element<Real>(buffers.grad_out, p.grad_out.dtype, at(p.grad_out) + h));
      }
      sum = warp_sum(sum);
      if (p.grad_lse.present()) sum -= static_cast<const Real*>(buffers.grad_lse)[row.at(p.grad_lse)];
    }
    if (threadIdx.x == 0) delta[i] = static_cast<Real>(sum);
  }
}

// What one score's gradients are made of; all 0 for a key that the row does not see.
template <class Real>
struct Weight {
  Real kept;   // after dropout
  Real logit;  // gradient of the logit
  Real score;  // gradient of the score
};

template <class Real>
__device__ Weight<Real> weight(const core::Problem& p, const core::Buffers& buffers, const Row<Real>& row, Real lse, Real delta,
                               Real score, Real grad_kept, std::int64_t s) {
  const Logit<Real> x = logit(p, buffers, row, score, s);
  if (x.value == negative_infinity<Real>()) return {};
  const Real exact = exp(x.value - lse);
  Real factor = 1;
  if (p.has_dropout()) {
    factor = core::keeps(p, row.b, row.n, row.t, s) ? static_cast<Real>(1 / (1 - p.dropout.probability)) : Real{0};
  }
  const Real grad_logit = exact * (grad_kept * factor - delta);
  return {exact * factor, grad_logit, grad_logit * x.slope};
}

template <class T>
__global__ void __launch_bounds__(kMaxThreads)
    gradient_rows(const __grid_constant__ core::Problem p, const __grid_constant__ core::Buffers buffers, const Matrices m,
                  bool bias) {
  using Real = typename Traits<T>::Real;
  const std::int64_t all = p.batch * p.query_heads * p.query_length;
  for (std::int64_t i = blockIdx.x; i < all; i += gridDim.x) {
    const Row<Real> row = row_of<Real>(p, buffers, i);
    const Real lse = lse_of(p, buffers, row);
    const Real delta = m.gradients ? static_cast<const Real*>(m.delta)[i] : Real{0};
    const bool blank = lse == negative_infinity<Real>();
    Real* scores = static_cast<Real*>(m.scores) + i * m.stride;
    Real* gradients = m.gradients ? static_cast<Real*>(m.gradients) + i * m.stride : nullptr;
    const std::int64_t bias_row =
        row.b * p.grad_bias.strides[0] + row.n * p.grad_bias.strides[1] + row.t * p.grad_bias.strides[2];
    // A 16-bit number lies over the scores of columns before its own, which this round or an earlier one has read.
    for (std::int64_t first = 0; first < p.key_length; first += blockDim.x) {
      const std::int64_t s = first + threadIdx.x;
      const bool inside = s < p.key_length;
      Weight<Real> x{};
      if (inside && !blank) x = weight(p, buffers, row, lse, delta, scores[s], gradients ? gradients[s] : Real{0}, s);
      if (sizeof(T) != sizeof(Real)) __syncthreads();
      if (!inside) continue;
      round_to(x.kept, reinterpret_cast<T*>(scores)[s]);
      if (gradients) round_to(x.score, reinterpret_cast<T*>(gradients)[s]);
      if (bias) tile::store_element(buffers.grad_bias, p.grad_bias.dtype, bias_row + s * p.grad_bias.strides[3], x.logit);
    }
  }
}

// The four positions of an index over sizes.
struct Position {
  std::int64_t at[4];
};
__device__ Position position(std::int64_t i, const std::int64_t (&sizes)[4]) {
  Position x;
  for (int d = 3; d >= 0; --d) {
    x.at[d] = i % sizes[d];
    i /= sizes[d];
  }
  return x;
}

__device__ void store_bias(const core::Problem& p, const core::Buffers& buffers, std::int64_t element, double x) {
  const std::int64_t shape[4] = {p.bias_shape[0], p.bias_shape[1], p.bias_shape[2], p.bias_shape[3]};
  const Position own = position(element, shape);
  std::int64_t at = 0;
  for (int d = 0; d < 4; ++d) at += own.at[d] * p.grad_bias.strides[d];
  tile::store_element(buffers.grad_bias, p.grad_bias.dtype, at, x);
}

// Each group of lanes adds up one chunk of the terms of one element, always in the same order.
template <class Real>
__global__ void __launch_bounds__(kMaxThreads)
    bias_chunks(const __grid_constant__ core::Problem p, const __grid_constant__ core::Buffers buffers, const Matrices m,
                const BiasSums sums, double* partial) {
  const std::int64_t extents[4] = {p.batch, p.query_heads, p.query_length, p.key_length};
  std::int64_t shape[4];   // of the bias
  std::int64_t summed[4];  // extents that one element adds up
  for (int d = 0; d < 4; ++d) {
    shape[d] = p.bias_shape[d];
    summed[d] = shape[d] == 1 ? extents[d] : 1;
  }
  const std::int64_t chunk_terms = (sums.terms + sums.chunks - 1) / sums.chunks;
  const int lane = threadIdx.x % sums.lanes;
  const std::int64_t groups = std::int64_t{gridDim.x} * (blockDim.x / sums.lanes);
  for (std::int64_t g = std::int64_t{blockIdx.x} * (blockDim.x / sums.lanes) + threadIdx.x / sums.lanes;
       g < sums.elements * sums.chunks; g += groups) {
    const Position own = position(g % sums.elements, shape);
    const std::int64_t begin = g / sums.elements * chunk_terms;
    const std::int64_t end = std::min(begin + chunk_terms, sums.terms);
    double sum = 0;
    for (std::int64_t j = begin + lane; j < end; j += sums.lanes) {
      const Position term = position(j, summed);
      const auto at = [&](int d) { return own.at[d] + term.at[d]; };  // one of the two is 0
      const std::int64_t i = (at(0) * p.query_heads + at(1)) * p.query_length + at(2);
      const Row<Real> row = row_of<Real>(p, buffers, i);
      const Real lse = lse_of(p, buffers, row);
      if (lse == negative_infinity<Real>()) continue;
      const std::int64_t s = at(3);
      sum += weight(p, buffers, row, lse, static_cast<const Real*>(m.delta)[i],
                    static_cast<const Real*>(m.scores)[i * m.stride + s],
                    static_cast<const Real*>(m.gradients)[i * m.stride + s], s)
                 .logit;
    }
    if (sums.lanes == kWarp) sum = warp_sum(sum);
    if (lane != 0) continue;
    if (partial) {
      partial[g] = sum;
    } else {
      store_bias(p, buffers, g, sum);
    }
  }
}

__global__ void __launch_bounds__(kMaxThreads)
    bias_totals(const __grid_constant__ core::Problem p, const __grid_constant__ core::Buffers buffers, const BiasSums sums,
                const double* partial) {
  for (std::int64_t e = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; e < sums.elements;
       e += std::int64_t{gridDim.x} * blockDim.x) {
    double sum = 0;
    for (std::int64_t c = 0; c < sums.chunks; ++c) sum += partial[c * sums.elements + e];
    store_bias(p, buffers, e, sum);
  }
}

// One block per head.
template <class Real>
__global__ void __launch_bounds__(kMaxThreads)
    sink_heads(const __grid_constant__ core::Problem p, const __grid_constant__ core::Buffers buffers, const Real* delta) {
  __shared__ double shared[kMaxThreads / kWarp];
  for (std::int64_t n = blockIdx.x; n < p.query_heads; n += gridDim.x) {
    const Real sink = static_cast<const float*>(buffers.sink)[n * p.sink.strides[0]];
    double sum = 0;
    for (std::int64_t j = threadIdx.x; j < p.batch * p.query_length; j += blockDim.x) {
      const std::int64_t i = (j / p.query_length * p.query_heads + n) * p.query_length + j % p.query_length;
      const Real lse = lse_of(p, buffers, row_of<Real>(p, buffers, i));
      if (lse != negative_infinity<Real>()) sum -= static_cast<double>(exp(sink - lse) * delta[i]);
    }
    sum = reduce(sum, shared, [](double a, double b) { return a + b; });
    if (threadIdx.x == 0) static_cast<Real*>(buffers.grad_sink)[n * p.grad_sink.strides[0]] = static_cast<Real>(sum);
  }
}

}  // namespace

void delta(const core::Problem& p, const core::Buffers& buffers, void* delta, cudaStream_t stream) {
  const std::int64_t rows = p.batch * p.query_heads * p.query_length;
  if (rows == 0) return;
  const dim3 block(kWarp, kMaxThreads / kWarp);
  with_real(p.dtype, [&]<class Real>(Real) {
    launch(kernel_name<Real>("delta").c_str(), delta_rows<Real>, grid_of(rows, block.y), block, 0, stream, p, buffers,
           static_cast<Real*>(delta));
  });
}

void gradient(const core::Problem& p, const core::Buffers& buffers, const Matrices& m, bool bias, cudaStream_t stream) {
  const std::int64_t rows = p.batch * p.query_heads * p.query_length;
  if (rows == 0 || p.key_length == 0) return;
  with_type(p.dtype, [&]<class T>(T) {
    launch(kernel_name<T>("gradient").c_str(), gradient_rows<T>, grid_of(rows, 1), row_threads(p.key_length), 0, stream, p,
           buffers, m, bias);
  });
}

BiasSums::BiasSums(const core::Problem& p) : elements(1), terms(1) {
  const std::int64_t extents[4] = {p.batch, p.query_heads, p.query_length, p.key_length};
  for (int d = 0; d < 4; ++d) {
    elements *= p.bias_shape[d];
    if (p.bias_shape[d] == 1) terms *= extents[d];
  }
  lanes = p.bias_shape[3] == 1 && p.key_length > 1 ? kWarp : 1;  // neighbours read neighbouring keys, either way
  const std::int64_t wanted = kBiasThreads / std::max<std::int64_t>(elements * lanes, 1);
  chunks = std::max<std::int64_t>(std::min(wanted, terms / (kBiasTerms * lanes)), 1);
}

std::int64_t BiasSums::partial() const { return chunks == 1 ? 0 : elements * chunks; }

void sum_bias(const core::Problem& p, const core::Buffers& buffers, const Matrices& m, const BiasSums& sums, double* partial,
              cudaStream_t stream) {
  if (sums.elements == 0) return;
  const bool cut = sums.chunks > 1;
  with_real(p.dtype, [&]<class Real>(Real) {
    launch(kernel_name<Real>("bias").c_str(), bias_chunks<Real>, grid_of(sums.elements * sums.chunks, kMaxThreads / sums.lanes),
           dim3(kMaxThreads), 0, stream, p, buffers, m, sums, cut ? partial : nullptr);
  });
  if (cut) {
    launch("naive bias totals", bias_totals, grid_of(sums.elements, kMaxThreads), dim3(kMaxThreads), 0, stream, p, buffers,
           sums, partial);
  }
}

void sum_sink(const core::Problem& p, const core::Buffers& buffers, const void* delta, cudaStream_t stream) {
  if (p.query_heads == 0) return;
  with_real(p.dtype, [&]<class Real>(Real) {
    launch(kernel_name<Real>("sink").c_str(), sink_heads<Real>, grid_of(p.query_heads, 1), dim3(kMaxThreads), 0, stream, p,
           buffers, static_cast<const Real*>(delta));
  });
}

void load_backward(const core::Problem& p) {
  cudaFuncAttributes attributes;
  with_type(p.dtype, [&]<class T>(T) {
    check(cudaFuncGetAttributes(&attributes, gradient_rows<T>), "loading the kernel naive gradient");
  });
  with_real(p.dtype, [&]<class Real>(Real) {
    check(cudaFuncGetAttributes(&attributes, delta_rows<Real>), "loading the kernel naive delta");
    check(cudaFuncGetAttributes(&attributes, bias_chunks<Real>), "loading the kernel naive bias");
    check(cudaFuncGetAttributes(&attributes, sink_heads<Real>), "loading the kernel naive sink");
  });
  check(cudaFuncGetAttributes(&attributes, bias_totals), "loading the kernel naive bias totals");
}

}  // namespace dhyan::cuda::naive

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "cuda/device.hpp"
#include "cuda/runtime/guard.hpp"
#include "cuda/runtime/launch.hpp"
#include "cuda/tile/element.cuh"

namespace dhyan::cuda {
namespace {

constexpr int kWarp = 32;
constexpr int kWarps = 8;
constexpr std::int64_t kMaxBlocks = std::int64_t{1} << 16;

// e^x1 and e^x2 relative to their sum, and the log of the sum. A part at -inf counts nothing, whatever its output holds.
struct Weights {
  double a, b, lse;
};
__device__ Weights weigh(double lse_a, double lse_b) {
  const double nothing = -static_cast<double>(INFINITY);
  if (lse_b == nothing) return {lse_a == nothing ? 0.0 : 1.0, 0.0, lse_a};
  if (lse_a == nothing) return {0.0, 1.0, lse_b};
  const double most = lse_b > lse_a || isnan(lse_b) ? lse_b : lse_a;
  const double a = exp(lse_a - most);
  const double b = exp(lse_b - most);
  return {a / (a + b), b / (a + b), most + log(a + b)};
}

// One warp per row: every lane has read both lse before one of them writes, possibly in their place.
template <class Real>
__global__ void __launch_bounds__(kWarp* kWarps)
    merge_rows(const Shape shape, const __grid_constant__ Parts parts, std::int64_t rows) {
  const auto& [batch, tokens, heads, width] = shape;
  for (std::int64_t row = std::int64_t{blockIdx.x} * kWarps + threadIdx.y; row < rows;
       row += std::int64_t{gridDim.x} * kWarps) {
    const std::int64_t n = row % heads;
    const std::int64_t t = row / heads % tokens;
    const std::int64_t b = row / heads / tokens;
    const auto at = [&](const View& x) { return b * x.strides[0] + t * x.strides[1] + n * x.strides[2]; };
    const Weights w = weigh(tile::element<double>(parts.lse_a.data, parts.lse_a.dtype, at(parts.lse_a)),
                            tile::element<double>(parts.lse_b.data, parts.lse_b.dtype, at(parts.lse_b)));
    __syncwarp();
    if (threadIdx.x == 0) tile::store_element(parts.lse.data, parts.lse.dtype, at(parts.lse), w.lse);
    const auto weight_a = static_cast<Real>(w.a);
    const auto weight_b = static_cast<Real>(w.b);
    for (std::int64_t h = threadIdx.x; h < width; h += kWarp) {
      const auto value = [&](const View& x) { return tile::element<Real>(x.data, x.dtype, at(x) + h * x.strides[3]); };
      Real x = 0;
      if (w.a != 0) x = weight_a * value(parts.out_a);
      if (w.b != 0) x += weight_b * value(parts.out_b);
      tile::store_element(parts.out.data, parts.out.dtype, at(parts.out) + h * parts.out.strides[3], x);
    }
  }
}

}  // namespace

void merge(const Shape& shape, const Parts& parts, std::int32_t device, void* stream) {
  const DeviceGuard guard(device);
  const std::int64_t rows = shape[0] * shape[1] * shape[2];
  if (rows == 0) return;
  const dim3 grid(static_cast<unsigned>(std::min((rows + kWarps - 1) / kWarps, kMaxBlocks)));
  const dim3 block(kWarp, kWarps);
  auto* const on = static_cast<cudaStream_t>(stream);
  if (parts.out_a.dtype == DHYAN_F64 || parts.out_b.dtype == DHYAN_F64) {
    launch("merge<f64>", merge_rows<double>, grid, block, 0, on, shape, parts, rows);
  } else {
    launch("merge<f32>", merge_rows<float>, grid, block, 0, on, shape, parts, rows);
  }
}

}  // namespace dhyan::cuda

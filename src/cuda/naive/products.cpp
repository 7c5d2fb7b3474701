// SPDX-License-Identifier: Apache-2.0
#include "cuda/naive/products.hpp"

#include <algorithm>

#include "cuda/naive/layout.hpp"

namespace dhyan::cuda::naive {
namespace {

constexpr std::int64_t kMaxBatches = 32768;  // in one call of cuBLASLt

}  // namespace

Products::Products(MatmulShape shape, const core::Problem& p, Side left, Side right, Side result)
    : sides_{left, right, result},
      element_{element_bytes(shape.input), element_bytes(shape.input), element_bytes(shape.output)} {
  const auto whole = [&](const Side& side) { return side.batch == side.head * p.key_heads; };
  if (p.batch == 1 || p.key_heads == 1 || (whole(left) && whole(right) && whole(result))) {
    inner_ = p.batch * p.key_heads;
    over_heads_ = p.key_heads > 1;
  } else {
    over_heads_ = p.key_heads >= p.batch;
    inner_ = over_heads_ ? p.key_heads : p.batch;
    outer_ = over_heads_ ? p.batch : p.key_heads;
  }
  shape.left_batch = inner_stride(0);
  shape.right_batch = inner_stride(1);
  shape.result_batch = inner_stride(2);
  shape.batches = static_cast<std::int32_t>(std::min(inner_, kMaxBatches));
  full_.emplace(shape, p.device_index);
  if (inner_ > kMaxBatches && inner_ % kMaxBatches != 0) {
    shape.batches = static_cast<std::int32_t>(inner_ % kMaxBatches);
    rest_.emplace(shape, p.device_index);
  }
}

std::size_t Products::workspace_bytes() const {
  return std::max(full_->workspace_bytes(), rest_ ? rest_->workspace_bytes() : std::size_t{0});
}

void Products::run(double alpha, const void* left, const void* right, void* result, void* workspace,
                   cudaStream_t stream) const {
  for (std::int64_t o = 0; o < outer_; ++o) {
    for (std::int64_t i = 0; i < inner_; i += kMaxBatches) {
      const Matmul& matmul = rest_ && inner_ - i < kMaxBatches ? *rest_ : *full_;
      const auto at = [&](int side, const void* data) {
        return static_cast<const std::byte*>(data) + (o * outer_stride(side) + i * inner_stride(side)) * element_[side];
      };
      matmul.run(alpha, at(0, left), at(1, right), const_cast<std::byte*>(at(2, result)), workspace, stream);
    }
  }
}

}  // namespace dhyan::cuda::naive

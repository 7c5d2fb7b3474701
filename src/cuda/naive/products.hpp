// SPDX-License-Identifier: Apache-2.0
// One step's products over all (batch, key head).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/problem.hpp"
#include "cuda/naive/matmul.hpp"

namespace dhyan::cuda::naive {

// One operand: where the matrices of an entry begin, strides in elements.
struct Side {
  std::int64_t batch, head;
};

// Entries that one stride reaches go into one call, the rest into several.
class Products {
 public:
  // The shape says nothing of batches. The device must be current.
  Products(MatmulShape shape, const core::Problem& p, Side left, Side right, Side result);

  std::size_t workspace_bytes() const;
  void run(double alpha, const void* left, const void* right, void* result, void* workspace, cudaStream_t stream) const;

 private:
  std::int64_t inner_stride(int side) const { return over_heads_ ? sides_[side].head : sides_[side].batch; }
  std::int64_t outer_stride(int side) const { return over_heads_ ? sides_[side].batch : sides_[side].head; }

  Side sides_[3];
  std::int64_t element_[3];
  std::int64_t inner_ = 1, outer_ = 1;
  bool over_heads_ = true;
  std::optional<Matmul> full_, rest_;
};

}  // namespace dhyan::cuda::naive

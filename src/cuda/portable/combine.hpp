// SPDX-License-Identifier: Apache-2.0
// What the forward kernels leave to others: partial results of splits, and rows that no sequence holds.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/portable/forward.hpp"

namespace dhyan::cuda::portable {

// A lane of a warp weighs four splits.
inline constexpr int kMaxSplits = 128;

// Joins the parts of every row into out and lse, with the sink. Early: starts while the kernel before it ends.
void combine(const ForwardArguments& a, bool early, cudaStream_t stream);

// Packed: rows in gaps have no other kernel that writes them.
void blank(const core::Problem& p, const core::Buffers& buffers, cudaStream_t stream);

void load_combine(const core::Problem& p);

}  // namespace dhyan::cuda::portable

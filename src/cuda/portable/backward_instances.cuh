// SPDX-License-Identifier: Apache-2.0
// The kernels of one element type and class of head dimension.
#pragma once

#include "cuda/portable/backward_keys.cuh"
#include "cuda/portable/backward_queries.cuh"

namespace dhyan::cuda::portable {

// Options that work on single scores leave no use for large tiles.
template <class T, int kClass>
constexpr BackwardKernels backward_kernels() {
  constexpr int kLarge = static_cast<int>(BackwardUse::large);
  constexpr int kSmall = static_cast<int>(BackwardUse::small);
  return {{backward_keys<T, kClass, kLarge, false>, nullptr},
          {nullptr, backward_keys<T, kClass, kSmall, true>},
          backward_queries<T, kClass>,
          backward_bias<T, kClass>};
}

}  // namespace dhyan::cuda::portable

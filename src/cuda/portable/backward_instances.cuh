// SPDX-License-Identifier: Apache-2.0
// The kernels of one element type and class of head dimension.
#pragma once

#include "cuda/portable/backward_keys.cuh"
#include "cuda/portable/backward_queries.cuh"

namespace dhyan::cuda::portable {

template <int kClass, BackwardUse kUse>
struct KeyRow {  // of the table
  static constexpr KeyShape kShape = kKeyShapes[kClass][static_cast<int>(kUse)];
};

template <class T, int kClass>
constexpr BackwardKernels backward_kernels() {
  return {backward_keys<T, KeyRow<kClass, BackwardUse::large>, false>,
          backward_keys<T, KeyRow<kClass, BackwardUse::small>, true>, backward_queries<T, kClass, false>,
          backward_queries<T, kClass, true>, backward_bias<T, kClass>};
}

}  // namespace dhyan::cuda::portable

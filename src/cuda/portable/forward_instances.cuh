// SPDX-License-Identifier: Apache-2.0
// The kernels of one element type and class of head dimension.
#pragma once

#include "cuda/portable/forward.cuh"

namespace dhyan::cuda::portable {

// Options that work on single scores leave no use for large tiles, nor do rows so wide that they are slow in any.
template <class T, int kClass>
constexpr ForwardKernels forward_kernels() {
  constexpr int kLarge = static_cast<int>(ForwardUse::large);
  constexpr int kSmall = static_cast<int>(ForwardUse::small);
  constexpr int kFewRows = static_cast<int>(ForwardUse::few_rows);
  ForwardKernels kernels{};
  kernels.general[kSmall] = forward<T, kClass, kSmall, true>;
  if constexpr (kHeadDims[kClass] <= 256) {
    kernels.general[kFewRows] = forward<T, kClass, kFewRows, true>;
    kernels.plain[kSmall] = forward<T, kClass, kSmall, false>;
    kernels.plain[kFewRows] = forward<T, kClass, kFewRows, false>;
  }
  if constexpr (kHeadDims[kClass] <= 128) kernels.plain[kLarge] = forward<T, kClass, kLarge, false>;
  return kernels;
}

}  // namespace dhyan::cuda::portable

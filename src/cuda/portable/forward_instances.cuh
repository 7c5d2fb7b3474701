// SPDX-License-Identifier: Apache-2.0
// The kernels of one element type and class of head dimension.
#pragma once

#include "cuda/portable/forward.cuh"

namespace dhyan::cuda::portable {

template <class T, int kClass, ForwardUse kUse>
constexpr void add_plain(ForwardKernels& kernels) {
  if constexpr (kForwardShapes[kClass][static_cast<int>(kUse)].head_dim != 0) {
    kernels.plain[static_cast<int>(kUse)] = forward_plain<T, kClass, static_cast<int>(kUse)>;
  }
}
template <class T, int kClass, ForwardUse kUse>
constexpr void add_general(ForwardKernels& kernels) {
  if constexpr (kForwardShapes[kClass][static_cast<int>(kUse)].head_dim != 0) {
    kernels.general[static_cast<int>(kUse)] = forward_general<T, kClass, static_cast<int>(kUse)>;
  }
}

// Options that work on single scores leave no use for other tiles than these, nor do rows so wide that they are slow in any for
// plain kernels.
template <class T, int kClass>
constexpr ForwardKernels forward_kernels() {
  ForwardKernels kernels{};
  add_general<T, kClass, ForwardUse::small>(kernels);
  add_general<T, kClass, ForwardUse::few_rows>(kernels);
  if constexpr (kHeadDims[kClass] <= 256) {
    add_plain<T, kClass, ForwardUse::small>(kernels);
    add_plain<T, kClass, ForwardUse::large>(kernels);
    add_plain<T, kClass, ForwardUse::few_keys>(kernels);
    add_plain<T, kClass, ForwardUse::few_rows>(kernels);
    add_plain<T, kClass, ForwardUse::many_keys>(kernels);
  }
  return kernels;
}

}  // namespace dhyan::cuda::portable

// SPDX-License-Identifier: Apache-2.0
#include "cuda/portable/forward_instances.cuh"

namespace dhyan::cuda::portable {
const ForwardKernels forward_bf16_128 = forward_kernels<__nv_bfloat16, 1>();
}

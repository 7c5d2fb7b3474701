// SPDX-License-Identifier: Apache-2.0
#include "cuda/portable/backward_instances.cuh"

namespace dhyan::cuda::portable {
const BackwardKernels backward_bf16_128 = backward_kernels<__nv_bfloat16, 1>();
}

// SPDX-License-Identifier: Apache-2.0
#include "cuda/portable/backward_instances.cuh"

namespace dhyan::cuda::portable {
const BackwardKernels backward_f16_64 = backward_kernels<__half, 0>();
}

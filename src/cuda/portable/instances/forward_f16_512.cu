// SPDX-License-Identifier: Apache-2.0
#include "cuda/portable/forward_instances.cuh"

namespace dhyan::cuda::portable {
const ForwardKernels forward_f16_512 = forward_kernels<__half, 3>();
}

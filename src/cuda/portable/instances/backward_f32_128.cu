// SPDX-License-Identifier: Apache-2.0
#include "cuda/portable/f32_backward.cuh"

namespace dhyan::cuda::portable {
const FloatBackwardKernels backward_f32_128 = {backward_f32<1, false>, backward_f32<1, true>};
}

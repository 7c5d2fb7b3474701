// SPDX-License-Identifier: Apache-2.0
#include "cuda/portable/f32_backward.cuh"

namespace dhyan::cuda::portable {
const FloatBackwardKernels backward_f32_64 = {backward_f32<0, false>, backward_f32<0, true>};
}

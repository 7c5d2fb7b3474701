// SPDX-License-Identifier: Apache-2.0
#include "cuda/portable/f32_forward.cuh"

namespace dhyan::cuda::portable {
const FloatForwardKernels forward_f32_128 = {
    {forward_f32<1, 0, false>, forward_f32<1, 1, false>},
    {forward_f32<1, 0, true>, forward_f32<1, 1, true>},
};
}

// SPDX-License-Identifier: Apache-2.0
#include "cuda/portable/f32_forward.cuh"

namespace dhyan::cuda::portable {
const FloatForwardKernels forward_f32_64 = {
    {forward_f32<0, 0, false>, forward_f32<0, 1, false>},
    {forward_f32<0, 0, true>, forward_f32<0, 1, true>},
};
}

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/implementation.hpp"
#include "cuda/device.hpp"

namespace dhyan::cudnn {

// Attention by NVIDIA's cuDNN 9, opened at run time.
extern const core::ImplementationEntry entry;

// Its row of what `dhyan info` lists.
cuda::Library library();

// Forgets the graphs that no plan holds.
void trim();

}  // namespace dhyan::cudnn

// SPDX-License-Identifier: Apache-2.0
// The two passes of naive attention: what each needs and does.
#pragma once

#include <memory>

#include "core/implementation.hpp"

namespace dhyan::cuda::naive {

// Bytes of scratch, those of matrices of scores among them; doubles, since the numbers may be any.
struct Need {
  double matrices, copies;
};
Need forward_need(const core::Problem& p);
Need backward_need(const core::Problem& p);

std::unique_ptr<core::Executable> plan_forward(const core::Problem& p);
std::unique_ptr<core::Executable> plan_backward(const core::Problem& p);

}  // namespace dhyan::cuda::naive

// SPDX-License-Identifier: Apache-2.0
// Naive attention over a whole problem: pass after pass, each over all heads, with the matrices in scratch between them.
#pragma once

#include <cstddef>

#include "cpu/naive_steps.hpp"

namespace dhyan::cpu::naive {

// Bytes of the [B, N, T, S] matrices alone; a double, since the number may be any.
double matrix_bytes(const core::Problem& problem);

template <class Real>
std::size_t scratch_bytes(const core::Problem& problem, const Steps<Real>& steps);

template <class Real>
void forward(const core::Problem& problem, const Steps<Real>& steps, const core::Buffers& buffers, void* scratch);
template <class Real>
void backward(const core::Problem& problem, const Steps<Real>& steps, const core::Buffers& buffers, void* scratch);

}  // namespace dhyan::cpu::naive

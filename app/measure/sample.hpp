// SPDX-License-Identifier: Apache-2.0
// Single rows of a large problem in float64: each is a shard of its own, with the origins that say where it lies.
#pragma once

#include "measure/oracle.hpp"

namespace dhyan::app {

Oracle sampled_forward(const Call& call, const Geometry& geometry);
// Rows of the gradients of query, key and value.
Oracle sampled_backward(const Call& call, const Geometry& geometry, const Outputs& given);

}  // namespace dhyan::app

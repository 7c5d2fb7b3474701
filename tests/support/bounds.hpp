// SPDX-License-Identifier: Apache-2.0
// How far naive and fused may be from the reference: the one place that says so.
//
// u is the unit roundoff of the inputs' type, a that of accumulation (2^-24; f64: 2^-53). A sum of n terms computed in a
// errs by at most accumulation(n) times the sum of the terms' magnitudes: rounding errors are independent enough to grow as
// sqrt(n) (Higham and Mary, "A new approach to probabilistic rounding error analysis", 2019), with a constant far in the tail.
//   score   e = accumulation(H) |scale| |q| |k|
//   logit   e + a few a of each term that is added
//   weight  relative: the logit's error + a few a; rounded to the inputs' type before each product: + u (16-bit types)
//   out     sum P |v| (weight error + u + accumulation(S)) + u |out|
// and so on backward, for the given out and lse: dP errs by accumulation(Hv) |dO| |v|, dlogit = P (dP - delta) by P times that,
// and is rounded by u.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "support/case.hpp"

namespace dhyan::testing {

// Unit roundoff: half the distance from 1 to the next number.
double roundoff(dhyan_dtype dtype);
double accumulation_roundoff(dhyan_dtype dtype);

// Relative to the sum of magnitudes.
inline double accumulation(dhyan_dtype dtype, double terms) {
  return accumulation_roundoff(dtype) * (4 * std::sqrt(terms) + 8);
}

// For one tensor, elements in the order of its dimensions.
struct Bound {
  std::vector<double> element;  // |got - want| never exceeds it
  double norm = 0;              // nor does the root of the sum of squares of all differences exceed this
};

struct ForwardBounds {
  Bound out, lse;
};

struct BackwardBounds {
  Bound grad_query, grad_key, grad_value, grad_bias, grad_sink;
};

// Around the exact results.
ForwardBounds forward_bounds(const Instance& instance, const Forward& exact);
// `heads_rounded`: each query head's part of a key head's gradients is rounded before the heads of a group are added up, which
// is cudnn's way.
BackwardBounds backward_bounds(const Instance& instance, const Forward& given, const Backward& exact,
                               bool heads_rounded = false);

}  // namespace dhyan::testing

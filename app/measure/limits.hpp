// SPDX-License-Identifier: Apache-2.0
// How far a result may be from float64, from element type, sizes and magnitudes: the one place of the program that says so.
//
// u is the unit roundoff of the inputs' type, a that of accumulation (2^-24; f64: 2^-53). A sum of n terms errs by at most
// a (4 √n + 8) times the sum of the terms' magnitudes (Higham and Mary, "A new approach to probabilistic rounding error
// analysis", 2019). Weights and, backward, logit gradients are rounded to 16-bit inputs' type before they are multiplied.
#pragma once

#include <string>

#include "problem/call.hpp"

namespace dhyan::app {

struct Magnitudes {
  double largest = 0;      // |element|
  double longest_row = 0;  // of the rows along the last dimension, by Euclidean length
  double mean_row = 0;     // root mean square of the rows' lengths
};
// Rows that hold infinities or NaN are left out.
Magnitudes magnitudes_of(const Array& array);

// A difference from float64 passes when its norm is at most relative · ‖expected‖ + noise · √elements, and no element differs
// by more than 8 · (relative · largest expected + noise) + peak.
struct Limits {
  double relative = 0;
  double noise = 0;
  double peak = 0;
};

class LimitTable {
 public:
  LimitTable(const Call& call, const Geometry& geometry);
  // `name` as in named(Outputs).
  Limits of(const std::string& name) const;

 private:
  double sum_error(double terms) const;

  Magnitudes query_, key_, value_, grad_out_;
  double roundoff_, accumulation_, bias_roundoff_;
  double head_dim_, value_head_dim_, rows_, key_rows_, visible_keys_, shared_rows_;
  double scale_, kept_, weight_error_, logit_error_, delta_error_;
  double bias_elements_ = 1, heads_ = 1;
};

}  // namespace dhyan::app

// SPDX-License-Identifier: Apache-2.0
// One call by one implementation or by all: timed, and held against float64.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "measure/difference.hpp"
#include "measure/oracle.hpp"
#include "measure/statistics.hpp"
#include "problem/call.hpp"
#include "report/record.hpp"

namespace dhyan::app {

// The record of a measured call.
Record make_record(const Call& call, const Geometry& geometry, Implementation implementation, bool backward,
                   const std::vector<double>& milliseconds);

// A result that was stored, and how near a new one must come.
struct Stored {
  std::string file;
  Expected expected;
  // |Δ| <= absolute + relative · |stored| everywhere; nothing: the limits of the type and sizes.
  struct Tolerance {
    double absolute = 0, relative = 0;
  };
  std::optional<Tolerance> tolerance;
  bool rounded = false;  // it holds less than float64
};
Difference compare_stored(const Array& out, const Stored& stored, const LimitTable& limits);

struct ComparedRow {
  Implementation implementation = Implementation::automatic;
  std::string refusal;  // why it did not run; empty: it did
  Record record;
  std::vector<std::pair<std::string, Difference>> differences;  // by result
  std::optional<Difference> stored;
};

struct ComparedCall {
  std::vector<ComparedRow> rows;  // forward rows, then backward rows
  std::string forward_extent, backward_extent;
  bool ok = true;
};

// Runs the implementations in `which`. `say` is told what is being done.
ComparedCall compare_implementations(const Call& call, const Geometry& geometry, std::span<const Implementation> which,
                                     const Repeats& repeats, const std::optional<Stored>& stored,
                                     const std::function<void(const std::string&)>& say);

}  // namespace dhyan::app

// SPDX-License-Identifier: Apache-2.0
#include "measure/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "arguments.hpp"

namespace dhyan::app {
namespace {

class Comparer {
 public:
  Comparer(const Call& call, const Geometry& geometry, const Repeats& repeats, const std::optional<Stored>& stored,
           const std::function<void(const std::string&)>& say)
      : call_(call), geometry_(geometry), repeats_(repeats), stored_(stored), say_(say), limits_(call, geometry) {}

  ComparedCall compare(std::span<const Implementation> which) {
    say_("float64");
    const Oracle forward = forward_oracle(call_, geometry_);
    result_.forward_extent = forward.extent;
    for (const Implementation i : which) add_row(i, false, forward, nullptr);
    if (call_.grad_out) {
      say_("float64 gradients");
      const Outputs given = given_outputs();
      const Oracle backward = backward_oracle(call_, geometry_, given);
      result_.backward_extent = backward.extent;
      for (const Implementation i : which) add_row(i, true, backward, &given);
    }
    return std::move(result_);
  }

 private:
  // out and lse that the gradients start from: the device's own where something there can compute them.
  Outputs given_outputs() const {
    Outputs given = make_outputs(call_);
    try {
      compute(forward_problem(call_, given, Implementation::automatic), false);
      fetch(given);
    } catch (const Error& error) {
      if (error.status() != Status::unsupported) throw;
      compute(forward_problem(call_, given, Implementation::reference), false);
    }
    return given;
  }

  void add_row(Implementation implementation, bool backward, const Oracle& oracle, const Outputs* given) {
    say_(fmt::format("{} {}", name_of(implementation), backward ? "backward" : "forward"));
    ComparedRow row;
    row.implementation = implementation;
    try {
      run(row, backward, oracle, given);
    } catch (const Error& error) {
      if (error.status() != Status::unsupported && error.status() != Status::out_of_memory) throw;
      row.refusal = error.what();
      row.record = make_record(call_, geometry_, implementation, backward, {0});
    }
    result_.rows.push_back(std::move(row));
  }

  void run(ComparedRow& row, bool backward, const Oracle& oracle, const Outputs* given) {
    if (const auto reason = unavailable(row.implementation, device_of(call_, row.implementation)))
      throw Error(Status::unsupported, *reason);
    const bool sampled = !oracle.expected.empty() && !oracle.expected.front().everywhere;
    if (row.implementation == Implementation::reference && sampled) {
      throw Error(Status::unsupported, "above 2 GFLOP it computes the rows that the others are compared with, not the whole");
    }
    Outputs outputs = make_outputs(call_);
    poison(outputs);
    if (backward) {
      outputs.out.assign(given->out);
      outputs.lse.assign(given->lse);
    }
    Runner runner(
        backward ? backward_problem(call_, outputs, row.implementation) : forward_problem(call_, outputs, row.implementation),
        backward);
    row.record = make_record(call_, geometry_, row.implementation, backward, time_calls([&] { runner.run(); }, repeats_));
    if (!on_host(runner.device())) fetch(outputs);
    Difference all;
    for (const Expected& expected : oracle.expected) {
      for (const auto& [name, array] : named(outputs)) {
        if (name != expected.name) continue;
        row.differences.emplace_back(name, dhyan::app::compare(*array, expected, limits_.of(name)));
        const Difference& d = row.differences.back().second;
        // lse must be right, but it is the result itself whose error is shown.
        all = name == "lse" ? Difference{all.max_abs, all.relative, all.misplaced + d.misplaced, std::max(all.share, d.share)}
                            : worst(all, d);
      }
    }
    const double shown = all.misplaced ? NAN : 1;
    row.record.check = Record::Check{all.max_abs * shown, all.relative * shown, all.ok()};
    result_.ok = result_.ok && all.ok();
    if (stored_ && !backward) {
      row.stored = compare_stored(outputs.out, *stored_, limits_);
      result_.ok = result_.ok && row.stored->ok();
    }
  }

  const Call& call_;
  const Geometry& geometry_;
  const Repeats& repeats_;
  const std::optional<Stored>& stored_;
  const std::function<void(const std::string&)>& say_;
  LimitTable limits_;
  ComparedCall result_;
};

}  // namespace

Record make_record(const Call& call, const Geometry& g, Implementation implementation, bool backward,
                   const std::vector<double>& milliseconds) {
  const Statistics times = statistics_of(milliseconds);
  Record r;
  r.implementation = name_of(implementation);
  r.device = name_of(device_of(call, implementation));
  r.dtype = info_of(call.element()).name;
  r.direction = backward ? "backward" : "forward";
  r.causal = call.causal;
  r.batch = g.batch;
  r.query_length = g.query_length;
  r.key_length = g.key_length;
  r.query_heads = g.query_heads;
  r.key_heads = g.key_heads;
  r.head_dim = g.head_dim;
  r.wall_ms = times.median;
  r.p10_ms = times.p10;
  r.p90_ms = times.p90;
  r.tflops = times.median > 0 ? flop_count(call, g, backward) / (times.median * 1e9) : 0;
  return r;
}

Difference compare_stored(const Array& out, const Stored& stored, const LimitTable& table) {
  Limits limits = table.of("out");
  if (stored.rounded) limits = {2 * limits.relative, 2 * limits.noise, 2 * limits.peak};
  Difference difference = compare(out, stored.expected, limits);
  if (stored.tolerance) {
    difference.share = 0;
    const std::vector<double> values = doubles_of(out);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double want = stored.expected.values[i], off = std::abs(values[i] - want);
      if (!std::isfinite(off) || off == 0) continue;
      const double allowed = stored.tolerance->absolute + stored.tolerance->relative * std::abs(want);
      difference.share = std::max(difference.share, allowed > 0 ? off / allowed : INFINITY);
    }
  }
  return difference;
}

ComparedCall compare_implementations(const Call& call, const Geometry& geometry, std::span<const Implementation> which,
                                     const Repeats& repeats, const std::optional<Stored>& stored,
                                     const std::function<void(const std::string&)>& say) {
  return Comparer(call, geometry, repeats, stored, say).compare(which);
}

}  // namespace dhyan::app

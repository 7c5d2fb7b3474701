// SPDX-License-Identifier: Apache-2.0
// What a step of the lab works with: how the lab was asked to run, its inputs, and timing.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "device/devices.hpp"
#include "lab/candidates.hpp"
#include "lab/inputs.hpp"
#include "measure/statistics.hpp"
#include "report/document.hpp"
#include "report/progress.hpp"

namespace dhyan::lab {

struct Settings {
  Device device = cpu;
  std::vector<int> steps;               // by rising number
  bool quick = false;                   // smaller sweeps, fewer repeats
  std::optional<int> repeats;           // timed calls a row, instead of each step's own number
  std::optional<std::int64_t> max_seq;  // of the sweep over sequence lengths
  std::optional<Inputs> given;          // the user's own tensors instead of random ones
};

// Thrown between two calls when the user asked the lab to stop.
struct Interrupted {};

class Lab {
 public:
  // `stop` tells whether to stop; `earlier` are the steps that ran before, as they come in.
  Lab(const Settings& settings, const std::vector<report::Step>& earlier, std::function<bool()> stop)
      : settings_(settings), earlier_(earlier), stop_(std::move(stop)) {}

  const Settings& settings() const { return settings_; }
  const std::vector<report::Step>& earlier() const { return earlier_; }
  // The standard shape's inputs, of seed 0, or the user's own.
  const Inputs& inputs();
  // A call with these inputs on the lab's device.
  app::Call call(const Inputs& inputs, app::Element element, Causal causal = Causal::off) const;
  bool on_gpu() const { return !app::on_host(settings_.device); }
  // The repeats a step asks for, as --quick and --repeats change them.
  app::Repeats repeats(int warmup, int repeats) const;
  // Throws Interrupted.
  void pause_point() const;

  // Times `candidate` on `call` and adds the timing to the step; or says in a note why it did not run.
  std::optional<report::Timing> time(report::Step& step, const Candidate& candidate, const app::Call& call,
                                     const std::string& setting, const app::Repeats& repeats);

 private:
  report::Timing measure(report::Step& step, const Candidate& candidate, const app::Call& call, const std::string& setting,
                         const app::Repeats& repeats) const;
  void note_refusal(report::Step& step, const Candidate& candidate, const std::string& setting,
                    const std::string& reason) const;

  const Settings& settings_;
  const std::vector<report::Step>& earlier_;
  std::function<bool()> stop_;
  std::optional<Inputs> inputs_;
};

// "fused f32 (T=64; T=128) did not run: …": one note for a label and a reason, whatever the settings; empty: without them.
void add_refusal(report::Step& step, std::string_view label, const std::string& setting, const std::string& reason);

// What stands beside the clock's milliseconds on a GPU.
void note_device_time(report::Step& step);

// "T=128: A and B, B and C are not ranked": neighbours in rank whose ranges from p10 to p90 overlap, in one note.
void note_unranked(report::Step& step, const std::vector<report::Timing>& row);

}  // namespace dhyan::lab

// SPDX-License-Identifier: Apache-2.0
#include "lab/run.hpp"

#include <algorithm>
#include <chrono>

#include "lab/steps.hpp"

namespace dhyan::lab {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// False: it was interrupted.
bool run_step(Lab& lab, const StepEntry& entry, report::Step& step) {
  step.number = entry.number;
  step.title = entry.title;
  step.explanation = entry.explanation;
  if (lab.settings().given && !entry.own_inputs_only.en.empty()) {
    step.outcome = report::Outcome::skipped;
    step.reason = entry.own_inputs_only;
    return true;
  }
  try {
    lab.pause_point();
    entry.run(lab, step);
    return true;
  } catch (const Interrupted&) {
    step.outcome = report::Outcome::interrupted;
    step.reason = {"The lab was interrupted here; what had been measured until then stands below.",
                   "लैब यहीं रोक दी गई; तब तक जो नापा गया था, वह नीचे है।"};
    return false;
  } catch (const Error& error) {
    // A valid problem that this machine refuses is a result; anything else is not the step's to explain.
    if (error.status() != Status::unsupported) throw;
    step.outcome = report::Outcome::not_available;
    step.reason = {error.what(), ""};
    return true;
  }
}

}  // namespace

void run_steps(const Settings& settings, report::Document& document, const std::function<void(const report::Step&)>& done,
               const std::function<bool()>& stop) {
  const Clock::time_point begin = Clock::now();
  Lab lab(settings, document.steps, stop);
  bool whole = true;
  for (const StepEntry& entry : steps()) {
    if (std::ranges::find(settings.steps, entry.number) == settings.steps.end()) continue;
    const Clock::time_point start = Clock::now();
    report::Step step;
    whole = run_step(lab, entry, step);
    step.seconds = seconds_since(start);
    document.steps.push_back(std::move(step));
    document.seconds = seconds_since(begin);
    done(document.steps.back());
    if (!whole) break;
  }
  document.complete = whole;
}

}  // namespace dhyan::lab

// SPDX-License-Identifier: Apache-2.0
#include "api/plan.hpp"

#include <cstdint>

#include "api/blank.hpp"
#include "api/choose.hpp"
#include "api/scratch.hpp"
#include "core/error.hpp"
#include "cpu/target.hpp"

namespace dhyan::api {
namespace {

[[noreturn]] void refuse(const std::string& sentence) { throw core::Error(DHYAN_INVALID_ARGUMENT, sentence); }

void check_scratch(const dhyan_plan& plan, const void* scratch, std::size_t bytes) {
  const std::size_t needed = plan.executable->scratch_bytes();
  if (bytes < needed) {
    refuse("scratch: " + std::to_string(bytes) + " bytes, this plan needs " + std::to_string(needed));
  }
  if (reinterpret_cast<std::uintptr_t>(scratch) % kScratchAlignment != 0) {
    refuse("scratch: not aligned to " + std::to_string(kScratchAlignment) + " bytes, it must be");
  }
}

}  // namespace

std::unique_ptr<dhyan_plan> make_plan(const Validated& validated, const dhyan_device_description& device) {
  if (const std::string& error = cpu::target_error(); !error.empty()) refuse(error);
  const Choice choice = choose(validated.problem, device);
  auto plan = std::make_unique<dhyan_plan>();
  plan->problem = validated.problem;
  plan->layouts = validated.layouts;
  plan->entry = choice.entry;
  plan->executable = has_queries(validated.problem) ? choice.entry->plan(validated.problem, device)
                                                    : plan_blank(validated.problem, validated.layouts);
  plan->text = std::string("implementation: ") + choice.entry->name + " (" + choice.why + ")\n" +
               "kernel: " + plan->executable->describe() + "\n" + "threads: " + std::to_string(validated.problem.threads) +
               "\nscratch: " + std::to_string(plan->executable->scratch_bytes()) + " bytes\n";
  return plan;
}

void run_plan(const dhyan_plan& plan, const dhyan_buffers& buffers, void* scratch, std::size_t scratch_bytes, void* stream,
              bool overlaps) {
  if (stream != nullptr) refuse("stream: not NULL, a CPU has no streams");
  const Pointers pointers = pointers_of(buffers);
  check_pointers(plan.layouts, pointers);
  if (overlaps) check_overlaps(plan.layouts, pointers, plan.problem.direction);
  if (scratch == nullptr && scratch_bytes == 0) {
    const Scratch block(plan.executable->scratch_bytes());
    plan.executable->run(buffers, block.data(), stream);
    return;
  }
  if (scratch == nullptr) refuse("scratch: NULL with " + std::to_string(scratch_bytes) + " bytes, give both or neither");
  check_scratch(plan, scratch, scratch_bytes);
  plan.executable->run(buffers, scratch, stream);
}

}  // namespace dhyan::api

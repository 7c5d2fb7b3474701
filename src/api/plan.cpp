// SPDX-License-Identifier: Apache-2.0
#include "api/plan.hpp"

#include <cstdint>

#include "api/blank.hpp"
#include "api/choose.hpp"
#include "api/scratch.hpp"
#include "core/error.hpp"
#include "cpu/target.hpp"
#include "cuda/device.hpp"

namespace dhyan::api {
namespace {

[[noreturn]] void refuse(const std::string& sentence) { throw core::Error(DHYAN_INVALID_ARGUMENT, sentence); }

void check_scratch(const dhyan_plan& plan, const void* scratch, std::size_t bytes) {
  const std::size_t needed = plan.executable->scratch_bytes();
  const std::size_t alignment = plan.problem.device_type == DHYAN_CPU ? kScratchAlignment : cuda::kScratchAlignment;
  if (bytes < needed) {
    refuse("scratch: " + std::to_string(bytes) + " bytes, this plan needs " + std::to_string(needed));
  }
  if (reinterpret_cast<std::uintptr_t>(scratch) % alignment != 0) {
    refuse("scratch: not aligned to " + std::to_string(alignment) + " bytes, it must be");
  }
}

// "cuda:0 NVIDIA L4".
std::string device_name(const dhyan_device_description& device) {
  return device_text(device.device_type, device.device_index) + " " +
         cuda::devices()[static_cast<std::size_t>(device.device_index)].name;
}

// What only the driver can tell: whose memory a pointer is, and whose stream this is.
void check_device_pointers(const dhyan_plan& plan, const Pointers& pointers, void* stream) {
  const std::int32_t device = plan.problem.device_index;
  cuda::check_stream(stream, device);
  for (std::size_t i = 0; i < kSlots; ++i) {
    if (plan.layouts[i].elements > 0) cuda::check_pointer(pointers[i], kSlotRows[i].name, device);
  }
}

}  // namespace

std::unique_ptr<dhyan_plan> make_plan(const Validated& validated, const dhyan_device_description& device, bool runs_once) {
  const bool on_cpu = device.device_type == DHYAN_CPU;
  if (const std::string& error = cpu::target_error(); on_cpu && !error.empty()) refuse(error);
  const Choice choice = choose(validated.problem, device, !runs_once || validated.problem.allow_jit);
  auto plan = std::make_unique<dhyan_plan>();
  plan->problem = validated.problem;
  plan->layouts = validated.layouts;
  plan->entry = choice.entry;
  plan->executable = has_queries(validated.problem) ? choice.entry->plan(validated.problem, device)
                                                    : plan_blank(validated.problem, validated.layouts);
  plan->text = std::string("implementation: ") + choice.entry->name + " (" + choice.why + ")\n" +
               "kernel: " + plan->executable->describe() + "\n" +
               (on_cpu ? "threads: " + std::to_string(validated.problem.threads) : "device: " + device_name(device)) +
               "\nscratch: " + std::to_string(plan->executable->scratch_bytes()) + " bytes\n";
  return plan;
}

void run_plan(const dhyan_plan& plan, const dhyan_buffers& buffers, void* scratch, std::size_t scratch_bytes, void* stream,
              bool checks) {
  const bool on_cpu = plan.problem.device_type == DHYAN_CPU;
  if (on_cpu && stream != nullptr) refuse("stream: not NULL, a CPU has no streams");
  const Pointers pointers = pointers_of(buffers);
  check_pointers(plan.layouts, pointers);
  if (checks) {
    check_overlaps(plan.layouts, pointers, plan.problem.direction);
    if (!on_cpu) check_device_pointers(plan, pointers, stream);
  }
  if (scratch == nullptr && scratch_bytes == 0) {
    const std::size_t bytes = plan.executable->scratch_bytes();
    if (on_cpu) {
      const Scratch block(bytes);
      plan.executable->run(buffers, block.data(), stream);
    } else {
      const cuda::Scratch block(bytes, plan.problem.device_index, stream);
      plan.executable->run(buffers, block.data(), stream);
    }
    return;
  }
  if (scratch == nullptr) refuse("scratch: NULL with " + std::to_string(scratch_bytes) + " bytes, give both or neither");
  check_scratch(plan, scratch, scratch_bytes);
  plan.executable->run(buffers, scratch, stream);
}

}  // namespace dhyan::api

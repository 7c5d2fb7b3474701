// SPDX-License-Identifier: Apache-2.0
// The exported functions of dhyan.h.
#include <algorithm>
#include <cstring>
#include <string>

#include "api/abi.hpp"
#include "api/choose.hpp"
#include "api/convert.hpp"
#include "api/device.hpp"
#include "api/info.hpp"
#include "api/merge.hpp"
#include "api/one_shot.hpp"
#include "api/plan.hpp"
#include "api/scratch.hpp"
#include "cuda/device.hpp"

namespace api = dhyan::api;
using dhyan::core::Error;

extern "C" {

void dhyan_tensor_init_sized(dhyan_tensor* tensor, size_t struct_size) { api::init(tensor, struct_size); }
void dhyan_options_init_sized(dhyan_options* options, size_t struct_size) { api::init(options, struct_size); }
void dhyan_problem_init_sized(dhyan_problem* problem, size_t struct_size) { api::init(problem, struct_size); }
void dhyan_buffers_init_sized(dhyan_buffers* buffers, size_t struct_size) { api::init(buffers, struct_size); }
void dhyan_device_description_init_sized(dhyan_device_description* description, size_t struct_size) {
  api::init(description, struct_size);
}

dhyan_status dhyan_device_describe(dhyan_device_type type, int32_t index, dhyan_device_description* description, char* message,
                                   size_t message_size) {
  return api::guarded(message, message_size, [&] {
    api::read(description, "description");
    const std::size_t size = description->struct_size;
    dhyan_device_description found = api::describe_device(type, index);
    found.struct_size = size;
    std::memcpy(description, &found, std::min(size, sizeof found));
  });
}

const char* dhyan_version(void) {
  static const std::string version = std::to_string(DHYAN_VERSION_MAJOR) + "." + std::to_string(DHYAN_VERSION_MINOR) + "." +
                                     std::to_string(DHYAN_VERSION_PATCH);
  return version.c_str();
}

size_t dhyan_info(char* json, size_t size) {
  try {
    return api::copy_text(api::info(), json, size);
  } catch (...) {
    return api::copy_text("{}", json, size);
  }
}

dhyan_status dhyan_attention(const dhyan_problem* problem, void* stream, char* message, size_t message_size) {
  return api::guarded(message, message_size, [&] { api::run_once(problem, DHYAN_FORWARD, stream); });
}

dhyan_status dhyan_attention_backward(const dhyan_problem* problem, void* stream, char* message, size_t message_size) {
  return api::guarded(message, message_size, [&] { api::run_once(problem, DHYAN_BACKWARD, stream); });
}

dhyan_status dhyan_plan_create(const dhyan_problem* problem, dhyan_direction direction, const dhyan_device_description* device,
                               dhyan_plan** plan, char* message, size_t message_size) {
  return api::guarded(message, message_size, [&] {
    if (plan == nullptr) throw Error(DHYAN_INVALID_ARGUMENT, "plan: NULL, the new plan needs a place");
    *plan = nullptr;
    const dhyan_device_description d = api::device_or_default(device, problem);
    *plan = api::make_plan(api::validate(problem, direction, d, false), d, false).release();
  });
}

void dhyan_plan_destroy(dhyan_plan* plan) { delete plan; }

size_t dhyan_plan_scratch_bytes(const dhyan_plan* plan) { return plan == nullptr ? 0 : plan->executable->scratch_bytes(); }

dhyan_implementation dhyan_plan_implementation(const dhyan_plan* plan) {
  return plan == nullptr ? DHYAN_AUTO : plan->entry->id;
}

size_t dhyan_plan_describe(const dhyan_plan* plan, char* text, size_t size) {
  return api::copy_text(plan == nullptr ? std::string_view() : std::string_view(plan->text), text, size);
}

dhyan_status dhyan_plan_run(const dhyan_plan* plan, const dhyan_buffers* buffers, void* scratch, size_t scratch_bytes,
                            void* stream, char* message, size_t message_size) {
  return api::guarded(message, message_size, [&] {
    if (plan == nullptr) throw Error(DHYAN_INVALID_ARGUMENT, "plan: NULL, a plan is required");
    const dhyan_buffers b = api::read(buffers, "buffers");
    api::run_plan(*plan, b, scratch, scratch_bytes, stream, plan->problem.check_pointers);
  });
}

dhyan_status dhyan_merge(const dhyan_tensor* out_a, const dhyan_tensor* lse_a, const dhyan_tensor* out_b,
                         const dhyan_tensor* lse_b, const dhyan_tensor* out, const dhyan_tensor* lse, void* stream,
                         char* message, size_t message_size) {
  return api::guarded(message, message_size, [&] { api::merge(out_a, lse_a, out_b, lse_b, out, lse, stream); });
}

dhyan_status dhyan_convert(const dhyan_tensor* source, const dhyan_tensor* destination, void* stream, char* message,
                           size_t message_size) {
  return api::guarded(message, message_size, [&] { api::convert(source, destination, stream); });
}

dhyan_status dhyan_implementation_available(dhyan_implementation implementation, dhyan_device_type type, int32_t index,
                                            char* message, size_t message_size) {
  return api::guarded(message, message_size, [&] { api::require_available(implementation, type, index); });
}

void dhyan_trim(void) {
  api::trim_plans();
  api::trim_scratch();
  dhyan::cuda::trim();
}

}  // extern "C"

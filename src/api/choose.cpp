// SPDX-License-Identifier: Apache-2.0
#include "api/choose.hpp"

#include <algorithm>
#include <optional>

#include "api/device.hpp"
#include "api/preferences.hpp"
#include "core/error.hpp"

namespace dhyan::api {
namespace {

const std::optional<std::string> kCompiles = "its plan takes up to seconds to compile; a plan made once, or allow_jit, lets it";

std::optional<std::string> reason_against(const core::ImplementationEntry& entry, const core::Problem& problem,
                                          const dhyan_device_description& device) {
  if (std::string reason = entry.unavailable(device); !reason.empty()) return reason;
  return entry.refuse(problem, device);
}

std::string what_works(const core::Problem& problem, const dhyan_device_description& device) {
  std::string names;
  for (const core::ImplementationEntry* entry : implementations()) {
    if (entry->device_type != device.device_type || reason_against(*entry, problem, device)) continue;
    names += (names.empty() ? "" : ", ") + std::string(entry->name);
  }
  return names.empty() ? "no implementation can run it here" : "these can: " + names;
}

}  // namespace

const core::ImplementationEntry* find(dhyan_implementation implementation, dhyan_device_type type) {
  const auto all = implementations();
  const auto found = std::find_if(all.begin(), all.end(), [&](const core::ImplementationEntry* entry) {
    return entry->id == implementation && entry->device_type == type;
  });
  return found == all.end() ? nullptr : *found;
}

void require_available(dhyan_implementation implementation, dhyan_device_type type, std::int32_t index) {
  if (implementation < DHYAN_AUTO || implementation > DHYAN_CUDNN) {
    throw core::Error(DHYAN_INVALID_ARGUMENT,
                      "implementation: " + std::to_string(implementation) + ", it must be one of the DHYAN_ implementations");
  }
  const dhyan_device_description device = describe_device(type, index);
  if (implementation == DHYAN_AUTO) return;
  const core::ImplementationEntry* entry = find(implementation, type);
  if (const std::string reason = entry->unavailable(device); !reason.empty()) {
    throw core::Error(DHYAN_UNSUPPORTED, std::string("implementation: ") + entry->name + " cannot run here: " + reason);
  }
}

Choice choose(const core::Problem& problem, const dhyan_device_description& device, bool may_compile) {
  if (problem.requested != DHYAN_AUTO) {
    const core::ImplementationEntry* entry = find(problem.requested, device.device_type);
    if (const auto reason = reason_against(*entry, problem, device)) {
      throw core::Error(DHYAN_UNSUPPORTED, std::string("implementation: ") + entry->name +
                                               " cannot run this problem: " + *reason + "; " + what_works(problem, device));
    }
    return {entry, "asked for by name"};
  }
  std::string passed_over;
  const Preference preferred = preference(problem, device.device_type);
  for (const dhyan_implementation implementation : preferred.order) {
    const core::ImplementationEntry* entry = find(implementation, device.device_type);
    const auto reason = entry->compiles && !may_compile ? kCompiles : reason_against(*entry, problem, device);
    if (!reason) {
      const std::string source = preferred.measured_on ? std::string(", as measured on ") + preferred.measured_on : "";
      return {entry, "auto: the fastest that supports this problem" + source + passed_over};
    }
    passed_over += "\n  passed over " + std::string(entry->name) + ": " + *reason;
  }
  throw core::Error(DHYAN_UNSUPPORTED, "implementation: auto, no implementation can run this problem:" + passed_over);
}

}  // namespace dhyan::api

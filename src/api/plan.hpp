// SPDX-License-Identifier: Apache-2.0
// A validated problem and what runs it.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "api/validate.hpp"
#include "core/implementation.hpp"

// Immutable after it is made; any number of threads may run it at once.
struct dhyan_plan {
  dhyan::core::Problem problem;
  std::array<dhyan::api::Layout, dhyan::api::kSlots> layouts;
  const dhyan::core::ImplementationEntry* entry = nullptr;
  std::unique_ptr<const dhyan::core::Executable> executable;
  std::string text;  // for describe
};

namespace dhyan::api {

// Chooses an implementation for the problem and lets it prepare; a call that runs once gives no time to compile unless its
// options allow it. Throws Error.
std::unique_ptr<dhyan_plan> make_plan(const Validated& validated, const dhyan_device_description& device, bool runs_once);

// Checks the pointers and runs. `scratch` NULL: from the library's own blocks. `checks`: also that outputs share no
// memory and, on a GPU, whose memory the pointers are. Throws Error.
void run_plan(const dhyan_plan& plan, const dhyan_buffers& buffers, void* scratch, std::size_t scratch_bytes, void* stream,
              bool checks);

}  // namespace dhyan::api

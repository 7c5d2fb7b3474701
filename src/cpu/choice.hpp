// SPDX-License-Identifier: Apache-2.0
// Which engine serves a problem on this processor.
#pragma once

#include <string>

#include "cpu/engine.hpp"
#include "cpu/target.hpp"

namespace dhyan::cpu {

struct EngineChoice {
  const Engine* engine;
  std::string reason;  // a clause for Plan::describe
};

// f32 and f16 problems are multiplied as f32; bf16 ones by what is fastest here. Asks for AMX at the first bf16 problem. Throws
// core::Error when target_error() says that nothing may run.
EngineChoice choose_engine(dhyan_dtype dtype);

// Whether VDPBF16PS beats f32 FMA on widened operands on this processor, and by which measurement or rule.
struct DotPreference {
  bool preferred;
  const char* reason;
};
DotPreference dot_preference(const Processor& processor);

}  // namespace dhyan::cpu

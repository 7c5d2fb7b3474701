// SPDX-License-Identifier: Apache-2.0
// What the lab sets side by side: a row of its tables, a line of its charts.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "problem/call.hpp"
#include "report/document.hpp"

namespace dhyan::lab {

struct Candidate {
  std::string_view key;
  std::string_view label;
  Implementation implementation = Implementation::automatic;
  app::Element element = app::Element::f32;
  std::string_view colour;
  report::Marker marker = report::Marker::circle;
  bool module = false;  // called through nn::DotProductAttention
};

using report::Marker;
inline constexpr Candidate naive_f32{"naive_f32", "naive f32", Implementation::naive, app::Element::f32, "#d1242f"};
inline constexpr Candidate naive_bf16{"naive_bf16", "naive bf16", Implementation::naive, app::Element::bf16, "#9a6700"};
inline constexpr Candidate fused_f32{"fused_f32",       "fused f32", Implementation::fused,
                                     app::Element::f32, "#0969da",   Marker::square};
inline constexpr Candidate fused_bf16{"fused_bf16",       "fused bf16", Implementation::fused,
                                      app::Element::bf16, "#8250df",    Marker::diamond};
inline constexpr Candidate vendor_bf16{"vendor_bf16",      "vendor bf16", Implementation::cudnn,
                                       app::Element::bf16, "#1a7f37",     Marker::triangle};
inline constexpr Candidate fused_f16{"fused_f16",       "fused f16", Implementation::fused,
                                     app::Element::f16, "#bf3989",   Marker::diamond};
inline constexpr Candidate vendor_f16{"vendor_f16",      "vendor f16", Implementation::cudnn,
                                      app::Element::f16, "#4d7c0f",    Marker::triangle};
inline constexpr Candidate module_bf16{
    "module_bf16", "DotProductAttention bf16", Implementation::automatic, app::Element::bf16, "#d1242f", Marker::circle, true};

// Why a candidate cannot run a call on a device; nothing when it can.
std::optional<std::string> refusal(const Candidate& candidate, const app::Call& call, Device device);

// One call of a candidate, ready to be repeated; `call` and `outputs` must outlive it.
struct Prepared {
  std::function<void()> run;                      // until its result is there
  std::function<void(void* stream)> launch = {};  // on a GPU: starts it, so that it can be captured; a module cannot
};
Prepared prepare(const Candidate& candidate, const app::Call& call, const app::Outputs& outputs);

// The result of one call, written over poison.
app::Outputs attend(const app::Call& call, Implementation implementation);

// An empty series in the candidate's colours.
report::Series series_of(const Candidate& candidate);

}  // namespace dhyan::lab

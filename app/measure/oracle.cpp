// SPDX-License-Identifier: Apache-2.0
#include "measure/oracle.hpp"

#include "measure/sample.hpp"

namespace dhyan::app {
namespace {

Expected everywhere(const std::string& name, const Array& array) {
  return {.name = name, .values = doubles_of(array), .starts = {}, .width = 0, .everywhere = true};
}

// A shard cannot be bottom-right, and a row's own alignment already spends the origin that dropout counts from.
bool rows_stand_alone(const Call& call) { return call.dropout.probability == 0 || call.causal != Causal::bottom_right; }

}  // namespace

Oracle forward_oracle(const Call& call, const Geometry& geometry) {
  if (flop_count(call, geometry, false) > sampling_limit_flop && rows_stand_alone(call)) {
    return sampled_forward(call, geometry);
  }
  const Call wide = in_float64(call);
  const Outputs outputs = make_outputs(wide);
  attention(forward_problem(wide, outputs, Implementation::reference));
  return {{everywhere("out", outputs.out), everywhere("lse", outputs.lse)}, "all values"};
}

Oracle backward_oracle(const Call& call, const Geometry& geometry, const Outputs& given) {
  // Gradients of bias and sink gather every row, so that no sample of rows gives them.
  const bool gathers = call.bias || call.sink;
  if (flop_count(call, geometry, true) > sampling_limit_flop && rows_stand_alone(call) && !gathers) {
    return sampled_backward(call, geometry, given);
  }
  const Call wide = in_float64(call);
  Outputs outputs = make_outputs(wide);
  outputs.out = convert_array(given.out, Element::f64);
  outputs.lse = convert_array(given.lse, Element::f64);
  attention_backward(backward_problem(wide, outputs, Implementation::reference));
  Oracle oracle{{}, "all values"};
  for (const auto& [name, array] : named(outputs)) {
    if (name != "out" && name != "lse") oracle.expected.push_back(everywhere(name, *array));
  }
  return oracle;
}

}  // namespace dhyan::app

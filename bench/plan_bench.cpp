// SPDX-License-Identifier: Apache-2.0
// What a planned call costs beyond its arithmetic: the smallest problem there is.
#include <benchmark/benchmark.h>

#include <array>

#include "dhyan/dhyan.hpp"

namespace {

void planned_call(benchmark::State& state) {
  std::array<float, 16> query, key, value, out;
  query.fill(1);
  key.fill(2);
  value.fill(3);
  const dhyan::Problem problem{.query = {query.data(), {1, 1, 1, 16}},
                               .key = {key.data(), {1, 1, 1, 16}},
                               .value = {value.data(), {1, 1, 1, 16}},
                               .out = {out.data(), {1, 1, 1, 16}},
                               .options = {.implementation = dhyan::Implementation::fused}};
  const dhyan::Plan plan = dhyan::Plan::forward(problem);
  const dhyan::Buffers buffers(problem);
  for (auto _ : state) {
    plan.run(buffers);
    benchmark::DoNotOptimize(out);
  }
  if (out[0] != 3) state.SkipWithError("the planned call computed something else than its one value");
}
BENCHMARK(planned_call)->Name("planned_1x1x1x16");

}  // namespace

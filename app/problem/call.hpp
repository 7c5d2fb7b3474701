// SPDX-License-Identifier: Apache-2.0
// One attention call: its tensors and numbers, where its sequences lie, and what it costs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dhyan/dhyan.hpp"
#include "io/array.hpp"

namespace dhyan::app {

struct Call {
  Array query, key, value;  // BTNH, or THD when there are offsets
  std::optional<Array> bias, mask, alibi_slopes, sink, query_lengths, key_lengths, query_offsets, key_offsets;
  std::optional<Array> grad_out, grad_lse;  // grad_out: there is a backward pass
  Causal causal = Causal::off;
  Window window;
  std::optional<double> scale;
  double softcap = 0;
  Dropout dropout;
  Origin origin;
  std::int32_t threads = 0;
  bool deterministic = false;  // gradients
  Device device = cpu;         // where all but the reference compute

  bool packed() const { return query_offsets && key_offsets; }
  Element element() const { return query.element; }
};
// Copies the tensors to the device, where the call is then computed.
void place(Call& call, Device device);

// Rows of one sequence in the tensors; a dense batch entry b begins at row b · T.
struct Sequence {
  std::int64_t query_begin = 0, query_count = 0, key_begin = 0, key_count = 0;
};

struct Geometry {
  std::int64_t batch = 0;
  std::int64_t query_length = 0, key_length = 0;  // packed: of the longest sequence
  std::int64_t query_heads = 0, key_heads = 0, head_dim = 0, value_head_dim = 0;
  std::vector<Sequence> sequences;
};

// Checks no more than it needs to look the sizes up: ranks. The library checks the rest.
Geometry geometry_of(const Call& call);

// 2·B·N·T·S·(H + value head dim), halved for causal, 2.5 times that backward; with windows, lengths or packing the visible
// pairs of query and key are counted instead.
double flop_count(const Call& call, const Geometry& geometry, bool backward);

// Bytes of a pass that reads its inputs and writes its outputs once.
double byte_count(const Call& call, bool backward);

// Results in memory, unwritten; on the call's device too.
struct Outputs {
  Array out, lse;
  std::optional<Array> grad_query, grad_key, grad_value, grad_bias, grad_sink;
};
Outputs make_outputs(const Call& call);
// Fills every result with bytes that no right one holds, so that a value never written is seen.
void poison(Outputs& outputs);
// What the device wrote, to where the host looks.
void fetch(Outputs& outputs);
// The name and the array of every result, in the order they are written and shown.
std::vector<std::pair<std::string, const Array*>> named(const Outputs& outputs);

// The reference computes on the host, whatever the device is.
Device device_of(const Call& call, Implementation implementation);
Problem forward_problem(const Call& call, const Outputs& outputs, Implementation implementation);
Problem backward_problem(const Call& call, const Outputs& outputs, Implementation implementation);

// The same call in float64, on the host; 16-bit and f32 inputs become f64 exactly.
Call in_float64(const Call& call);

// A plan with scratch of its own, so that repeated runs allocate nothing.
class Runner {
 public:
  Runner(const Problem& problem, bool backward);
  // Until the result is there.
  void run();
  // On a GPU only starts it.
  void launch(void* stream = nullptr) { plan_.run(buffers_, scratch(), stream); }
  const Plan& plan() const { return plan_; }
  Device device() const { return device_; }

 private:
  std::span<std::byte> scratch();

  Plan plan_;
  Buffers buffers_;
  Device device_;
  Buffer host_scratch_;
  DeviceMemory device_scratch_;
};

// One call in full: forward or backward, waited for.
void compute(const Problem& problem, bool backward);

}  // namespace dhyan::app

// SPDX-License-Identifier: Apache-2.0
// What PyTorch and JAX compute (tests/data/README.md), by every implementation and in every type that can hold the inputs.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/convert.hpp"
#include "reference/reference.hpp"
#include "support/bounds.hpp"
#include "support/check.hpp"
#include "support/compare.hpp"
#include "support/stored_file.hpp"

namespace dhyan::testing {
namespace {

struct PeerCase {
  std::string name;
  dhyan_dtype dtype;  // the type this test computes in
  nlohmann::json options;
};

void PrintTo(const PeerCase& c, std::ostream* stream) { *stream << c.name << " in " << core::name_of(c.dtype); }

const StoredFile& file() {
  static const StoredFile stored = read_stored_file("peer_results.safetensors");
  return stored;
}

dhyan_dtype dtype_named(const std::string& name) {
  for (const dhyan_dtype dtype : {DHYAN_F64, DHYAN_F32, DHYAN_F16, DHYAN_BF16}) {
    if (name == core::name_of(dtype)) return dtype;
  }
  throw std::runtime_error("unknown type " + name);
}

// A result is the truth for its own type and shorter ones; what a peer rounded to 16 bits is compared in that type alone.
std::vector<PeerCase> cases() {
  std::vector<PeerCase> all;
  for (const auto& c : nlohmann::json::parse(file().metadata.at("cases"))) {
    const dhyan_dtype stored = dtype_named(c["dtype"]);
    std::vector<dhyan_dtype> dtypes{stored};
    if (core::size_of(stored) > 2) dtypes.insert(dtypes.end(), {DHYAN_F16, DHYAN_BF16});
    if (stored == DHYAN_F64) dtypes.push_back(DHYAN_F32);
    for (const dhyan_dtype dtype : dtypes) all.push_back({c["name"], dtype, c["options"]});
  }
  return all;
}

const StoredTensor* find(const PeerCase& c, const std::string& tensor) {
  const auto found = file().tensors.find(c.name + "/" + tensor);
  return found == file().tensors.end() ? nullptr : &found->second;
}

std::array<bool, 4> broadcast(const StoredTensor& tensor) {
  std::array<bool, 4> is_one{true, true, true, true};
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) is_one[4 - tensor.shape.size() + i] = tensor.shape[i] == 1;
  return is_one;
}

std::vector<std::int64_t> integers(const StoredTensor* tensor) {
  std::vector<std::int64_t> result;
  if (tensor != nullptr) result.assign(tensor->values.begin(), tensor->values.end());
  return result;
}

void describe_sequences(const PeerCase& stored, Case& c) {
  c.query_lengths = integers(find(stored, "query_lengths"));
  c.key_lengths = integers(find(stored, "key_lengths"));
  const auto query_offsets = integers(find(stored, "query_offsets"));
  if (query_offsets.empty()) return;
  c.packed = true;
  const auto key_offsets = integers(find(stored, "key_offsets"));
  if (!c.query_lengths.empty()) c.packing_gap = query_offsets[1] - c.query_lengths[0];
  for (std::size_t b = 0; c.packing_gap == 0 && b + 1 < query_offsets.size(); ++b) {
    c.query_lengths.push_back(query_offsets[b + 1] - query_offsets[b]);
    c.key_lengths.push_back(key_offsets[b + 1] - key_offsets[b]);
  }
  c.batch = static_cast<std::int64_t>(c.query_lengths.size());
  c.query_length = *std::max_element(c.query_lengths.begin(), c.query_lengths.end());
  c.key_length = *std::max_element(c.key_lengths.begin(), c.key_lengths.end());
}

Case describe_case(const PeerCase& stored) {
  Case c;
  c.name = stored.name;
  c.dtype = stored.dtype;
  const auto& query = find(stored, "query")->shape;
  const auto& key = find(stored, "key")->shape;
  c.head_dim = query.back();
  c.query_heads = query[query.size() - 2];
  c.key_heads = key[key.size() - 2];
  c.value_head_dim = find(stored, "value")->shape.back();
  c.batch = query[0];
  c.query_length = query[1];
  c.key_length = key[1];
  describe_sequences(stored, c);

  const nlohmann::json& options = stored.options;
  c.scale = options.value("scale", -1.0);
  c.softcap = options.value("softcap", 0.0);
  const std::string causal = options.value("causal", "");
  if (causal == "top_left") c.causal = DHYAN_CAUSAL_TOP_LEFT;
  if (causal == "bottom_right") c.causal = DHYAN_CAUSAL_BOTTOM_RIGHT;
  if (options.contains("window")) {
    c.window_left = options["window"][0];
    c.window_right = options["window"][1];
  }
  if (const StoredTensor* bias = find(stored, "bias")) {
    c.bias = stored.dtype == DHYAN_F64 ? DHYAN_F64 : DHYAN_F32;
    c.bias_broadcast = broadcast(*bias);
  }
  if (const StoredTensor* mask = find(stored, "mask")) {
    c.mask = true;
    c.mask_broadcast = broadcast(*mask);
  }
  if (find(stored, "alibi_slopes") != nullptr) c.slopes = Slopes::per_head;
  c.sink = find(stored, "sink") != nullptr;
  c.grad_lse = find(stored, "grad_lse") != nullptr;
  c.grad_bias = find(stored, "grad_bias") != nullptr;
  c.grad_sink = find(stored, "grad_sink") != nullptr;
  return c;
}

// The stored numbers, except where the instance holds NaN because nothing may come from there.
void put(const PeerCase& stored, const char* name, Array& array) {
  const StoredTensor* tensor = find(stored, name);
  ASSERT_EQ(tensor != nullptr, array.present()) << name;
  if (tensor == nullptr) return;
  std::vector<double> values = tensor->values;
  const std::vector<double> drawn = array.values();
  ASSERT_EQ(values.size(), drawn.size()) << name;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(drawn[i])) values[i] = drawn[i];
  }
  array.assign(values);
}

void put_inputs(const PeerCase& stored, Instance& x) {
  put(stored, "query", x.query);
  put(stored, "key", x.key);
  put(stored, "value", x.value);
  put(stored, "grad_out", x.grad_out);
  put(stored, "grad_lse", x.grad_lse);
  put(stored, "bias", x.bias);
  put(stored, "mask", x.mask);
  put(stored, "alibi_slopes", x.alibi_slopes);
  put(stored, "sink", x.sink);
  put(stored, "query_lengths", x.query_lengths);
  put(stored, "key_lengths", x.key_lengths);
  put(stored, "query_offsets", x.query_offsets);
  put(stored, "key_offsets", x.key_offsets);
}

// Both sides round: twice what one implementation may err by. 16-bit gradients stand on an output that was rounded before delta
// was taken from it, the peer's did not: what that alone changes, the reference's `own` gradients show.
void compare(const PeerCase& stored, const std::string& name, const Array& got, Bound bound, const Array& own = {}) {
  const StoredTensor* tensor = find(stored, name);
  if (tensor == nullptr) return;
  Array want(DHYAN_F64, got.shape(), Layout::contiguous);
  ASSERT_EQ(static_cast<std::size_t>(want.size()), tensor->values.size()) << name;
  want.assign(tensor->values);
  for (double& element : bound.element) element *= 2;
  bound.norm *= 2;
  if (own.present() && core::size_of(stored.dtype) == 2) {
    const std::vector<double> from_rounded = own.values();
    bound.norm += difference(from_rounded, tensor->values).norm;
    for (std::size_t i = 0; i < from_rounded.size(); ++i) bound.element[i] += std::abs(from_rounded[i] - tensor->values[i]);
  }
  EXPECT_TRUE(within(got, want, bound)) << name;
}

class PeerResults : public ::testing::TestWithParam<PeerCase> {};

TEST_P(PeerResults, AreComputedByEveryImplementation) {
  const PeerCase& stored = GetParam();
  Instance x(describe_case(stored), Random(stored.name));
  ASSERT_NO_FATAL_FAILURE(put_inputs(stored, x));
  const Forward exact = forward(reference::entry, x);
  const ForwardBounds bounds = forward_bounds(x, exact);
  const Backward exact_gradients = backward(reference::entry, x, exact);
  const BackwardBounds gradient_bounds = backward_bounds(x, exact, exact_gradients);

  std::vector<const core::ImplementationEntry*> entries = implementations();
  entries.push_back(&reference::entry);
  for (const core::ImplementationEntry* entry : entries) {
    SCOPED_TRACE(entry->name);
    if (!refusal(*entry, x.problem).empty()) {
      EXPECT_EQ(stored.dtype, DHYAN_F64) << refusal(*entry, x.problem);
      continue;
    }
    const Forward got = forward(*entry, x);
    compare(stored, "out", got.out, bounds.out);
    compare(stored, "lse", got.lse, bounds.lse);
    const Backward gradients = backward(*entry, x, exact);
    compare(stored, "grad_query", gradients.grad_query, gradient_bounds.grad_query, exact_gradients.grad_query);
    compare(stored, "grad_key", gradients.grad_key, gradient_bounds.grad_key, exact_gradients.grad_key);
    compare(stored, "grad_value", gradients.grad_value, gradient_bounds.grad_value, exact_gradients.grad_value);
    compare(stored, "grad_bias", gradients.grad_bias, gradient_bounds.grad_bias, exact_gradients.grad_bias);
    compare(stored, "grad_sink", gradients.grad_sink, gradient_bounds.grad_sink, exact_gradients.grad_sink);
  }
}

INSTANTIATE_TEST_SUITE_P(Stored, PeerResults, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name + "_" + core::name_of(info.param.dtype); });

}  // namespace
}  // namespace dhyan::testing

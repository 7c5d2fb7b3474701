// SPDX-License-Identifier: Apache-2.0
// Queries, keys and values of a real sentence encoder, against float64 results computed outside this library.
#include <gtest/gtest.h>

#include "reference/reference.hpp"
#include "support/bounds.hpp"
#include "support/check.hpp"
#include "support/compare.hpp"
#include "support/stored_file.hpp"

namespace dhyan::testing {
namespace {

class RealTensors : public ::testing::TestWithParam<dhyan_dtype> {};

TEST_P(RealTensors, AttendAsInFloat64) {
  const StoredFile file = read_stored_file("minilm.safetensors");
  const auto& shape = file.tensors.at("query").shape;
  Case c;
  c.dtype = GetParam();
  c.batch = shape[0];
  c.query_length = c.key_length = shape[1];
  c.query_heads = c.key_heads = shape[2];
  c.head_dim = c.value_head_dim = shape[3];
  for (const double length : file.tensors.at("key_lengths").values) c.key_lengths.push_back(static_cast<std::int64_t>(length));
  Instance x(c, Random("real tensors"));
  x.query.assign(file.tensors.at("query").values);
  x.key.assign(file.tensors.at("key").values);
  x.value.assign(file.tensors.at("value").values);
  Array out(DHYAN_F64, x.out.shape(), Layout::contiguous), lse(DHYAN_F64, x.lse.shape(), Layout::contiguous);
  out.assign(file.tensors.at("out_float64").values);
  lse.assign(file.tensors.at("lse_float64").values);

  const ForwardBounds bounds = forward_bounds(x, {out, lse});
  std::vector<const core::ImplementationEntry*> entries = implementations();
  entries.push_back(&reference::entry);
  for (const core::ImplementationEntry* entry : entries) {
    SCOPED_TRACE(entry->name);
    if (!refusal(*entry, x.problem).empty()) {
      EXPECT_EQ(c.dtype, DHYAN_F64) << refusal(*entry, x.problem);
      continue;
    }
    const Forward got = forward(*entry, x);
    EXPECT_TRUE(within(got.out, out, bounds.out)) << "out";
    EXPECT_TRUE(within(got.lse, lse, bounds.lse)) << "lse";
  }
}

INSTANTIATE_TEST_SUITE_P(Wide, RealTensors, ::testing::Values(DHYAN_F64, DHYAN_F32),
                         [](const auto& info) { return info.param == DHYAN_F64 ? "f64" : "f32"; });

}  // namespace
}  // namespace dhyan::testing

// SPDX-License-Identifier: Apache-2.0
// What runs on a GPU against the reference, over the generated grid and the sizes that hurt on GPUs.
#include "support/grid.hpp"

#include <gtest/gtest.h>

#include "gpu/device.hpp"

namespace dhyan::testing::gpu {
namespace {

class GpuGrid : public ::testing::TestWithParam<Case> {};
class GpuGridBackward : public ::testing::TestWithParam<Case> {};

TEST_P(GpuGrid, EqualsTheReference) { check_case(GetParam()); }
TEST_P(GpuGridBackward, EqualsTheReference) { check_backward(GetParam()); }

INSTANTIATE_TEST_SUITE_P(EveryOption, GpuGrid, ::testing::ValuesIn(every_option()), case_name);
INSTANTIATE_TEST_SUITE_P(EveryOption, GpuGridBackward, ::testing::ValuesIn(every_option()), case_name);
INSTANTIATE_TEST_SUITE_P(EveryPair, GpuGrid, ::testing::ValuesIn(every_pair()), case_name);
INSTANTIATE_TEST_SUITE_P(EveryPair, GpuGridBackward, ::testing::ValuesIn(every_pair()), case_name);
INSTANTIATE_TEST_SUITE_P(EveryLength, GpuGrid, ::testing::ValuesIn(every_length()), case_name);
INSTANTIATE_TEST_SUITE_P(EveryLength, GpuGridBackward, ::testing::ValuesIn(every_length()), case_name);
INSTANTIATE_TEST_SUITE_P(EveryHeadDim, GpuGrid, ::testing::ValuesIn(every_head_dim()), case_name);
INSTANTIATE_TEST_SUITE_P(EveryHeadDim, GpuGridBackward, ::testing::ValuesIn(every_head_dim()), case_name);
INSTANTIATE_TEST_SUITE_P(EveryLayout, GpuGrid, ::testing::ValuesIn(every_layout()), case_name);
INSTANTIATE_TEST_SUITE_P(EveryLayout, GpuGridBackward, ::testing::ValuesIn(every_layout()), case_name);
INSTANTIATE_TEST_SUITE_P(Decode, GpuGrid, ::testing::ValuesIn(decode()), case_name);
INSTANTIATE_TEST_SUITE_P(Decode, GpuGridBackward, ::testing::ValuesIn(decode()), case_name);
INSTANTIATE_TEST_SUITE_P(ZeroSizes, GpuGrid, ::testing::ValuesIn(zero_sizes()), case_name);
INSTANTIATE_TEST_SUITE_P(ZeroSizes, GpuGridBackward, ::testing::ValuesIn(zero_sizes()), case_name);

// More entries than one grid dimension or one batched call takes.
std::vector<Case> many_entries() {
  std::vector<Case> cases;
  for (const bool heads : {false, true}) {
    Case c;
    c.dtype = DHYAN_BF16;
    c.batch = heads ? 1 : 65536 + 7;
    c.query_heads = heads ? 65536 + 7 : 2;
    c.key_heads = heads ? 65536 + 7 : 2;
    c.query_length = 2;
    c.key_length = 3;
    c.head_dim = c.value_head_dim = 8;
    c.name = heads ? "many_heads" : "many_batches";
    cases.push_back(c);
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(ManyEntries, GpuGrid, ::testing::ValuesIn(many_entries()), case_name);
INSTANTIATE_TEST_SUITE_P(ManyEntries, GpuGridBackward, ::testing::ValuesIn(many_entries()), case_name);

// One query against many keys.
std::vector<Case> long_decode() {
  std::vector<Case> cases;
  for (const dhyan_dtype dtype : {DHYAN_F32, DHYAN_BF16, DHYAN_F16}) {
    Case c;
    c.dtype = dtype;
    c.batch = 1;
    c.query_length = 1;
    c.key_length = std::int64_t{1} << 17;
    c.head_dim = c.value_head_dim = 64;
    c.name = "long_decode";
    cases.push_back(c);
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(LongDecode, GpuGrid, ::testing::ValuesIn(long_decode()), case_name);
INSTANTIATE_TEST_SUITE_P(LongDecode, GpuGridBackward, ::testing::ValuesIn(long_decode()), case_name);

// Products whose unscaled sums pass the largest float, and a scale that brings them back.
std::vector<Case> wide_values() {
  std::vector<Case> cases;
  for (const dhyan_dtype dtype : {DHYAN_F32, DHYAN_BF16}) {
    Case c;
    c.dtype = dtype;
    c.spread = 3e18;
    c.scale = 1e-37;
    c.name = "wide_values";
    cases.push_back(c);
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(WideValues, GpuGrid, ::testing::ValuesIn(wide_values()), case_name);
INSTANTIATE_TEST_SUITE_P(WideValues, GpuGridBackward, ::testing::ValuesIn(wide_values()), case_name);

}  // namespace
}  // namespace dhyan::testing::gpu

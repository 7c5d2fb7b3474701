// SPDX-License-Identifier: Apache-2.0
// naive and fused against the reference, forward and backward, over a generated grid.
#include "support/grid.hpp"

#include <gtest/gtest.h>

#include "support/check.hpp"

namespace dhyan::testing {
namespace {

class Grid : public ::testing::TestWithParam<Case> {};

TEST_P(Grid, EqualsTheReference) { check_case(GetParam()); }

INSTANTIATE_TEST_SUITE_P(EveryOption, Grid, ::testing::ValuesIn(every_option()), case_name);
INSTANTIATE_TEST_SUITE_P(EveryPair, Grid, ::testing::ValuesIn(every_pair()), case_name);
INSTANTIATE_TEST_SUITE_P(EveryLength, Grid, ::testing::ValuesIn(every_length()), case_name);
INSTANTIATE_TEST_SUITE_P(EveryHeadDim, Grid, ::testing::ValuesIn(every_head_dim()), case_name);
INSTANTIATE_TEST_SUITE_P(EveryLayout, Grid, ::testing::ValuesIn(every_layout()), case_name);
INSTANTIATE_TEST_SUITE_P(Decode, Grid, ::testing::ValuesIn(decode()), case_name);
INSTANTIATE_TEST_SUITE_P(ZeroSizes, Grid, ::testing::ValuesIn(zero_sizes()), case_name);

}  // namespace
}  // namespace dhyan::testing

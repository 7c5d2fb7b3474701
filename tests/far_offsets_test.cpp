// SPDX-License-Identifier: Apache-2.0
// Offsets past 2^31 elements, on memory that exists only where it is touched.
#include <gtest/gtest.h>

#include "support/check.hpp"

namespace dhyan::testing {
namespace {

Case small(dhyan_dtype dtype) {
  Case c;
  c.dtype = dtype;
  c.query_length = 7;
  c.key_length = 9;
  c.head_dim = c.value_head_dim = 16;
  return c;
}

TEST(FarOffsets, ByBatch) {
  for (const dhyan_dtype dtype : {DHYAN_F32, DHYAN_BF16}) {
    Case c = small(dtype);
    c.batch = 3;
    c.layout = Layout::far_batches;
    c.bias = DHYAN_F32;
    c.grad_bias = c.mask = true;
    check_case(c);
  }
}

TEST(FarOffsets, ByToken) {
  Case c = small(DHYAN_BF16);
  c.layout = Layout::far_tokens;
  c.batch = 1;
  check_case(c);
}

TEST(FarOffsets, ByTokenInPackedSequences) {
  Case c = small(DHYAN_F16);
  c.layout = Layout::far_tokens;
  c.packed = true;
  c.query_lengths = {3, 4};
  c.key_lengths = {4, 5};
  c.packing_gap = 1;
  c.offsets = DHYAN_I64;
  check_case(c);
}

}  // namespace
}  // namespace dhyan::testing

// SPDX-License-Identifier: Apache-2.0
// Tensors and matrices of more than 2^31 elements.
#include <gtest/gtest.h>

#include "core/convert.hpp"
#include "cuda/naive/naive.hpp"
#include "gpu/device.hpp"
#include "support/bounds.hpp"
#include "support/compare.hpp"

namespace dhyan::testing::gpu {
namespace {

// Each query is one of three rows in turn, so that the three say what all the others are.
TEST(GpuLarge, AMatrixOfScoresPastTwoToThe31) {
  Case c;
  c.dtype = DHYAN_BF16;
  c.batch = 1;
  c.query_length = 3;
  c.key_length = 46400;
  c.query_heads = c.key_heads = 1;
  c.head_dim = c.value_head_dim = 16;
  const Instance few(c, Random("large scores"));
  const Forward want = exact_forward(few);
  const ForwardBounds bounds = forward_bounds(few, want);

  Case all = c;
  all.query_length = 46401;
  Instance many(all, Random("large scores of all"));
  many.query.fill([&](auto, std::int64_t t, auto, std::int64_t h) { return few.query.get(0, t % 3, 0, h); });
  many.key = few.key;
  many.value = few.value;
  const Forward got = run_forward(cuda::naive_entry, many);
  for (const std::int64_t first : {std::int64_t{0}, std::int64_t{23199}, all.query_length - 3}) {
    Forward part{few.out.like(), few.lse.like()};
    part.out.fill([&](auto, std::int64_t t, auto, std::int64_t h) { return got.out.get(0, first + t, 0, h); });
    part.lse.fill([&](auto, auto, auto, std::int64_t t) { return got.lse.get(0, 0, 0, first + t); });
    EXPECT_TRUE(within(part.out, want.out, bounds.out)) << "queries from " << first;
    EXPECT_TRUE(within(part.lse, want.lse, bounds.lse)) << "queries from " << first;
  }
}

// Batch entries of keys and values lie 2^31 elements apart.
TEST(GpuLarge, ATensorThatReachesPastTwoToThe31) {
  Case c;
  c.dtype = DHYAN_BF16;
  c.query_length = 5;
  c.key_length = 33;
  c.head_dim = c.value_head_dim = 16;
  const Instance x(c, Random("far batches"));
  const Forward want = exact_forward(x);
  const ForwardBounds bounds = forward_bounds(x, want);

  const ForwardOnDevice near(x);
  const std::int64_t apart = (std::int64_t{1} << 31) + 16;
  const std::int64_t entry = c.key_length * c.key_heads * c.head_dim;
  void* far[2];
  core::Problem problem = near.problem();
  core::Buffers buffers = near.buffers();
  const void* from[2] = {buffers.key, buffers.value};
  for (int i = 0; i < 2; ++i) {
    expect_success(cudaMalloc(&far[i], static_cast<std::size_t>((apart + entry) * 2)), "cudaMalloc");
    expect_success(cudaMemcpy2D(far[i], static_cast<std::size_t>(entry) * 2, from[i], static_cast<std::size_t>(entry) * 2,
                                static_cast<std::size_t>(entry) * 2, 1, cudaMemcpyDeviceToDevice),
                   "copying an entry");
    expect_success(cudaMemcpy(static_cast<std::byte*>(far[i]) + apart * 2, static_cast<const std::byte*>(from[i]) + entry * 2,
                              static_cast<std::size_t>(entry) * 2, cudaMemcpyDeviceToDevice),
                   "copying an entry");
  }
  problem.key.strides[0] = problem.value.strides[0] = apart;
  buffers.key = far[0];
  buffers.value = far[1];
  const auto executable = cuda::naive_entry.plan(problem, device());
  EXPECT_NE(executable->describe().find("where they lie"), std::string::npos) << executable->describe();
  const Memory scratch(executable->scratch_bytes());
  expect_success(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  executable->run(buffers, scratch.data(), nullptr);
  const Forward got = near.result();
  EXPECT_TRUE(within(got.out, want.out, bounds.out));
  EXPECT_TRUE(within(got.lse, want.lse, bounds.lse));
  for (void* data : far) expect_success(cudaFree(data), "cudaFree");
}

}  // namespace
}  // namespace dhyan::testing::gpu

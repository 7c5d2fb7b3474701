// SPDX-License-Identifier: Apache-2.0
// What cuDNN is known to get wrong and is not refused, and its plans under capture, from many threads, twice.
#include "cudnn/cudnn.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "gpu/device.hpp"
#include "support/bounds.hpp"
#include "support/compare.hpp"

namespace dhyan::testing::gpu {
namespace {

class GpuCudnn : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = cudnn::entry.unavailable(device()); !reason.empty()) GTEST_SKIP() << reason;
  }
};

Case of_sizes(std::int64_t queries, std::int64_t keys) {
  Case c;
  c.dtype = DHYAN_BF16;
  c.query_length = queries;
  c.key_length = keys;
  c.head_dim = c.value_head_dim = 64;
  return c;
}

void expect_runs(const core::Problem& problem) {
  core::Problem p = problem;
  p.device_type = DHYAN_CUDA;
  const auto refused = cudnn::entry.refuse(p, device());
  EXPECT_EQ(refused, std::nullopt) << *refused;
}

void check_forward_of_cudnn(const Instance& x) {
  SCOPED_TRACE(describe(x.description));
  expect_runs(x.problem);
  const Forward want = exact_forward(x);
  const ForwardBounds bounds = forward_bounds(x, want);
  const Forward got = run_forward(cudnn::entry, x);
  EXPECT_TRUE(within(got.out, want.out, bounds.out));
  EXPECT_TRUE(within(got.lse, want.lse, bounds.lse));
}

void check_backward_of_cudnn(const Instance& x) {
  SCOPED_TRACE(describe(x.description));
  expect_runs(backward_problem(x, empty_gradients(x)));
  const Forward given = rounded(x, exact_forward(x));
  const Backward want = exact_backward(x, given);
  const BackwardBounds bounds = backward_bounds(x, given, want, true);
  const Backward got = run_backward(cudnn::entry, x, given);
  EXPECT_TRUE(within(got.grad_query, want.grad_query, bounds.grad_query));
  EXPECT_TRUE(within(got.grad_key, want.grad_key, bounds.grad_key));
  EXPECT_TRUE(within(got.grad_value, want.grad_value, bounds.grad_value));
  if (!want.grad_bias.present()) return;
  EXPECT_TRUE(within(got.grad_bias, want.grad_bias, bounds.grad_bias));
}

void check_both(const Case& c) {
  const Instance x(c, Random(describe(c)));
  check_forward_of_cudnn(x);
  check_backward_of_cudnn(x);
}

TEST_F(GpuCudnn, OneQueryWithLengths) {
  for (const std::int64_t key_heads : {1, 2, 4}) {
    for (const dhyan_causal causal : {DHYAN_CAUSAL_OFF, DHYAN_CAUSAL_BOTTOM_RIGHT}) {
      Case c = of_sizes(1, 1000);
      c.batch = 4;
      c.key_heads = key_heads;
      c.causal = causal;
      c.key_lengths = {1000, 0, 1, 333};
      check_both(c);
    }
  }
}

TEST_F(GpuCudnn, SequencesWithoutQueriesOrKeys) {
  for (const bool packed : {false, true}) {
    for (const dhyan_causal causal : {DHYAN_CAUSAL_OFF, DHYAN_CAUSAL_TOP_LEFT, DHYAN_CAUSAL_BOTTOM_RIGHT}) {
      Case c = of_sizes(130, 200);
      c.batch = 5;
      c.packed = packed;
      c.causal = causal;
      c.query_lengths = {0, 130, 7, 64, 128};
      c.key_lengths = {200, 0, 3, 64, 129};
      check_both(c);
    }
  }
}

// cuDNN 9.19 makes NaN of gradients where exp(-lse) overflows and no lengths say where the tail is.
TEST_F(GpuCudnn, LogitsFarBelowZero) {
  for (const int kind : {0, 1, 2, 3}) {
    for (const std::int64_t queries : {1, 64, 100, 128}) {
      for (const std::int64_t keys : {64, 128, 192, 256, 704}) {
        Case c = of_sizes(queries, keys);
        c.key_heads = c.query_heads;
        if (kind == 1) c.bias = DHYAN_BF16;
        if (kind == 2) c.causal = DHYAN_CAUSAL_TOP_LEFT;
        if (kind == 3) c.causal = DHYAN_CAUSAL_BOTTOM_RIGHT;
        Instance x(c, Random("far below zero"));
        x.query.fill([](auto, auto, auto, auto) { return 4.0; });
        x.key.fill([&](auto b, auto s, auto n, auto h) { return -4.0 - ((b + s + n + h) % 3) * 0.25; });  // logits near -130
        check_forward_of_cudnn(x);
        check_backward_of_cudnn(x);
      }
    }
  }
}

TEST_F(GpuCudnn, GradientOfAWholeBias) {
  for (const bool infinite : {false, true}) {
    Case c = of_sizes(100, 200);
    c.bias = DHYAN_BF16;
    c.grad_bias = true;
    c.bias_minus_infinity = infinite ? 0.3 : 0;
    check_both(c);
  }
}

// A row of bias that is -inf throughout is a masked row.
TEST_F(GpuCudnn, RowsThatABiasMasks) {
  for (const dhyan_dtype dtype : {DHYAN_BF16, DHYAN_F32}) {
    Case c = of_sizes(100, 200);
    c.bias = dtype;
    Instance x(c, Random("masked by a bias"));
    const Array random = x.bias;
    x.bias.fill([&](auto b, auto n, auto t, auto s) { return t % 7 == 3 ? -INFINITY : random.get(b, n, t, s); });
    check_forward_of_cudnn(x);
    check_backward_of_cudnn(x);
  }
}

TEST_F(GpuCudnn, ManyEntriesAndHeads) {
  Case c = of_sizes(2, 3);
  c.batch = 300;
  c.query_heads = c.key_heads = 300;
  c.head_dim = c.value_head_dim = 8;
  check_both(c);
}

TEST_F(GpuCudnn, DeterministicGradientsHaveTheSameBits) {
  Case c = of_sizes(300, 400);
  Instance x(c, Random("deterministic"));
  x.problem.deterministic = true;
  check_backward_of_cudnn(x);
  const Forward given = rounded(x, exact_forward(x));
  const Backward first = run_backward(cudnn::entry, x, given);
  for (int i = 0; i < 10; ++i) {
    const Backward again = run_backward(cudnn::entry, x, given);
    ASSERT_TRUE(same_bits(again.grad_query, first.grad_query)) << "run " << i;
    ASSERT_TRUE(same_bits(again.grad_key, first.grad_key)) << "run " << i;
    ASSERT_TRUE(same_bits(again.grad_value, first.grad_value)) << "run " << i;
  }
}

// The first run of a plan is captured: planning has loaded all it needs.
TEST_F(GpuCudnn, ACapturedRunReplays) {
  for (const bool lengths : {false, true}) {
    Case c = of_sizes(96, 224);
    if (lengths) c.key_lengths = {224, 100};
    const Instance x(c, Random("captured"));
    const Forward given = rounded(x, exact_forward(x));
    const Forward want = exact_forward(x);
    const Backward want_backward = exact_backward(x, given);
    const ForwardOnDevice forward(x);
    const BackwardOnDevice backward(x, given);
    cudaStream_t stream;
    expect_success(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
    const auto plan = cudnn::entry.plan(forward.problem(), device());
    const auto plan_backward = cudnn::entry.plan(backward.problem(), device());
    const Memory scratch(std::max(plan->scratch_bytes(), plan_backward->scratch_bytes()));
    expect_success(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    expect_success(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
    plan->run(forward.buffers(), scratch.data(), stream);
    plan_backward->run(backward.buffers(), scratch.data(), stream);
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    expect_success(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    expect_success(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
    for (int replay = 0; replay < 3; ++replay) {
      expect_success(cudaMemset(scratch.data(), 0xFF, scratch.size()), "cudaMemset");
      expect_success(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      expect_success(cudaGraphLaunch(executable, stream), "cudaGraphLaunch");
      const Forward got = forward.result();
      EXPECT_TRUE(within(got.out, want.out, forward_bounds(x, want).out));
      const Backward gradients = backward.result();
      EXPECT_TRUE(
          within(gradients.grad_query, want_backward.grad_query, backward_bounds(x, given, want_backward, true).grad_query));
    }
    expect_success(cudaGraphExecDestroy(executable), "cudaGraphExecDestroy");
    expect_success(cudaGraphDestroy(graph), "cudaGraphDestroy");
    expect_success(cudaStreamDestroy(stream), "cudaStreamDestroy");
  }
}

TEST_F(GpuCudnn, ManyThreadsPlanAndRunAtOnce) {
  Case c = of_sizes(64, 192);
  c.causal = DHYAN_CAUSAL_TOP_LEFT;
  const Instance x(c, Random("threads"));
  const Forward want = run_forward(cudnn::entry, x);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      cudaStream_t stream;
      expect_success(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
      const ForwardOnDevice on_device(x);
      const auto plan = cudnn::entry.plan(on_device.problem(), device());
      const Memory scratch(plan->scratch_bytes());
      expect_success(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      for (int r = 0; r < 50; ++r) plan->run(on_device.buffers(), scratch.data(), stream);
      expect_success(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
      EXPECT_TRUE(same_bits(on_device.result().out, want.out));
      expect_success(cudaStreamDestroy(stream), "cudaStreamDestroy");
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(GpuCudnn, WhatItCannotDoIsAnErrorThatNamesTheRule) {
  Client client = small_forward(DHYAN_F32);
  const ClientOnDevice on_device(client);
  client.options.implementation = DHYAN_CUDNN;
  const Answer answer = client.run_once();
  EXPECT_EQ(answer.status, DHYAN_UNSUPPORTED);
  EXPECT_NE(
      answer.message.find("implementation: cudnn cannot run this problem: dtype f32, cuDNN's attention takes f16 and bf16"),
      std::string::npos)
      << answer.message;
}

}  // namespace
}  // namespace dhyan::testing::gpu

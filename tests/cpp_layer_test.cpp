// SPDX-License-Identifier: Apache-2.0
// The C++ layer: views, designated initialisers, exceptions.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <dhyan/dhyan.hpp>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "support/random.hpp"

namespace dhyan::testing {
namespace {

struct Numbers {
  explicit Numbers(std::size_t count) : x(count) {
    Random random("numbers");
    for (float& value : x) value = static_cast<float>(random.normal());
  }
  std::vector<float> x;
};

struct CppLayer : public ::testing::Test {
  static constexpr std::int64_t B = 2, T = 6, S = 9, N = 4, K = 2, H = 8;
  Numbers q{B * T * N * H}, k{B * S * K * H}, v{B * S * K * H}, g{B * T * N * H};
  std::vector<float> out = std::vector<float>(B * T * N * H), lse = std::vector<float>(B * N * T);
  TensorView query{q.x.data(), {B, T, N, H}}, key{k.x.data(), {B, S, K, H}}, value{v.x.data(), {B, S, K, H}};
  TensorView o{out.data(), {B, T, N, H}}, l{lse.data(), {B, N, T}}, grad{g.x.data(), {B, T, N, H}};
};

TEST_F(CppLayer, ViewsAreContiguousUnlessToldOtherwise) {
  const std::int64_t want[] = {T * N * H, N * H, H, 1};
  EXPECT_TRUE(std::equal(query.strides().begin(), query.strides().end(), want, want + 4));
  const TensorView heads_first(q.x.data(), {B, T, N, H}, {N * T * H, H, T * H, 1});
  EXPECT_EQ(heads_first.strides()[2], T * H);
  EXPECT_EQ(heads_first.dtype(), DType::f32);
  EXPECT_FALSE(TensorView().present());
  EXPECT_EQ(TensorView().c(), nullptr);
  const std::array<std::int64_t, 4> shape = {B, T, N, H};
  EXPECT_EQ(TensorView(nullptr, DType::bf16, shape).strides()[0], T * N * H);

  EXPECT_EQ(dtype_of<const double>(), DType::f64);
  EXPECT_EQ(dtype_of<BFloat16>(), DType::bf16);
  EXPECT_EQ(dtype_of<Float16>(), DType::f16);
  EXPECT_EQ(dtype_of<bool>(), DType::boolean);
  EXPECT_EQ(dtype_of<std::int32_t>(), DType::i32);
  EXPECT_EQ(dtype_of<std::int64_t>(), DType::i64);
}

TEST_F(CppLayer, WrongViewsThrow) {
  const std::array<std::int64_t, 5> five = {1, 1, 1, 1, 1};
  EXPECT_THROW(TensorView(nullptr, DType::f32, five), Error);
  EXPECT_THROW(TensorView(q.x.data(), {B, T}, {T}), Error);
}

TEST_F(CppLayer, ErrorsCarryTheirCodeAndSentence) {
  try {
    attention(query, key, value, o, {.window = {.left = -3}});
    FAIL() << "a window of -3 was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::invalid_argument);
    EXPECT_STREQ(error.what(), "window_left: -3, it must be -1 (unlimited) or a count of keys");
  }
  try {
    attention(query, key, value, o, {.implementation = Implementation::cudnn});
    FAIL() << "cudnn ran on a CPU";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("NVIDIA"), std::string::npos);
  }
}

// Each option reaches the C struct: the C++ call and the C call give the same bits.
TEST_F(CppLayer, OptionsAreThoseOfTheCInterface) {
  const std::vector<float> slopes = {0.1f, 0.2f, 0.3f, 0.4f}, sinks = {0, 1, 2, 3};
  const std::vector<float> bias = Numbers(T * S).x;
  const std::vector<std::int32_t> query_lengths = {5, 6}, key_lengths = {9, 4};
  const std::unique_ptr<bool[]> mask(new bool[S]{true, true, false, true, true, true, true, false, true});
  const Options options = {.causal = Causal::top_left,
                           .window = {.left = 4, .right = 3},
                           .scale = 0.3,
                           .softcap = 2,
                           .bias = TensorView(bias.data(), {T, S}),
                           .mask = TensorView(mask.get(), {S}),
                           .alibi_slopes = TensorView(slopes.data(), {N}),
                           .sink = TensorView(sinks.data(), {N}),
                           .query_lengths = TensorView(query_lengths.data(), {B}),
                           .key_lengths = TensorView(key_lengths.data(), {B}),
                           .dropout = {.probability = 0.2, .seed = 7, .offset = 8},
                           .origin = {.batch = 1, .head = 2, .query = 3, .key = 1},
                           .implementation = Implementation::reference,
                           .threads = 2,
                           .check_pointers = true,
                           .deterministic = true};
  attention(query, key, value, o, l, options);
  const std::vector<float> got = out;

  dhyan_options c;
  dhyan_options_init(&c);
  c.causal = DHYAN_CAUSAL_TOP_LEFT;
  c.window_left = 4, c.window_right = 3;
  c.scale = 0.3, c.softcap = 2;
  c.dropout_probability = 0.2, c.dropout_seed = 7, c.dropout_offset = 8;
  c.batch_origin = 1, c.head_origin = 2, c.query_origin = 3, c.key_origin = 1;
  c.implementation = DHYAN_REFERENCE;
  dhyan_problem p;
  dhyan_problem_init(&p);
  p.options = &c;
  p.query = query.c(), p.key = key.c(), p.value = value.c(), p.out = o.c(), p.lse = l.c();
  p.bias = options.bias.c(), p.mask = options.mask.c(), p.alibi_slopes = options.alibi_slopes.c(), p.sink = options.sink.c();
  p.query_lengths = options.query_lengths.c(), p.key_lengths = options.key_lengths.c();
  std::fill(out.begin(), out.end(), -1.0f);
  char message[256];
  ASSERT_EQ(dhyan_attention(&p, nullptr, message, sizeof message), DHYAN_OK) << message;
  EXPECT_EQ(out, got);

  // And each of them matters: without it the result is another.
  const auto differs = [&](auto change) {
    Options other = options;
    change(other);
    attention(query, key, value, o, l, other);
    return out != got;
  };
  EXPECT_FALSE(differs([](Options&) {}));
  EXPECT_TRUE(differs([](Options& x) { x.causal = Causal::off; }));
  EXPECT_TRUE(differs([](Options& x) { x.window.left = 1; }));
  EXPECT_TRUE(differs([](Options& x) { x.causal = Causal::off, x.window.right = 1; }));
  EXPECT_TRUE(differs([](Options& x) { x.scale = std::nullopt; }));
  EXPECT_TRUE(differs([](Options& x) { x.softcap = 0; }));
  EXPECT_TRUE(differs([](Options& x) { x.bias = {}; }));
  EXPECT_TRUE(differs([](Options& x) { x.mask = {}; }));
  EXPECT_TRUE(differs([](Options& x) { x.alibi_slopes = {}; }));
  EXPECT_TRUE(differs([](Options& x) { x.sink = {}; }));
  EXPECT_TRUE(differs([](Options& x) { x.query_lengths = {}; }));
  EXPECT_TRUE(differs([](Options& x) { x.key_lengths = {}; }));
  EXPECT_TRUE(differs([](Options& x) { x.dropout = {}; }));
  EXPECT_TRUE(differs([](Options& x) { x.dropout.seed = 8; }));
  EXPECT_TRUE(differs([](Options& x) { x.dropout.offset = 9; }));
  EXPECT_TRUE(differs([](Options& x) { x.origin.batch = 0; }));
  EXPECT_TRUE(differs([](Options& x) { x.origin.head = 0; }));
  EXPECT_TRUE(differs([](Options& x) { x.origin.query = 0; }));
  EXPECT_TRUE(differs([](Options& x) { x.origin.key = 0; }));
}

TEST_F(CppLayer, PlansMoveDescribeAndRun) {
  Plan plan = Plan::forward({.query = query, .key = key, .value = value, .out = o, .lse = l});
  const Plan moved = std::move(plan);
  EXPECT_NE(moved.describe().find("implementation: "), std::string::npos);
  EXPECT_EQ(moved.describe().find('\0'), std::string::npos);
  EXPECT_NE(moved.implementation(), Implementation::automatic);
  moved.run({q.x.data(), k.x.data(), v.x.data(), out.data(), lse.data()});
  const std::vector<float> planned = out;
  std::fill(out.begin(), out.end(), -1.0f);
  std::vector<std::byte> memory(moved.scratch_bytes() + 64);
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  moved.run({q.x.data(), k.x.data(), v.x.data(), out.data(), lse.data()},
            std::span(memory).subspan((64 - address % 64) % 64, moved.scratch_bytes()));
  EXPECT_EQ(out, planned);
  attention(query, key, value, o, l);
  EXPECT_EQ(out, planned);
  attention(query, key, value, o);
  EXPECT_EQ(out, planned);
  EXPECT_THROW(moved.run({q.x.data(), k.x.data(), nullptr, out.data(), lse.data()}), Error);
}

TEST_F(CppLayer, GradientsByCallAndByPlanAreTheSame) {
  attention(query, key, value, o, l);
  std::vector<float> dq(q.x.size()), dk(k.x.size()), dv(v.x.size()), again(q.x.size());
  const TensorView grad_query(dq.data(), {B, T, N, H}), grad_key(dk.data(), {B, S, K, H}), grad_value(dv.data(), {B, S, K, H});
  attention_backward(query, key, value, o, l, grad, grad_query, grad_key, grad_value);
  EXPECT_GT(std::abs(dq[0]), 0);

  const Problem problem = {.query = query,
                           .key = key,
                           .value = value,
                           .out = o,
                           .lse = l,
                           .grad_out = grad,
                           .grads = {.query = TensorView(again.data(), {B, T, N, H})}};
  const Plan plan = Plan::backward(problem);
  plan.run(Buffers(problem));
  EXPECT_EQ(again, dq);
}

TEST_F(CppLayer, MergesConvertsAndDescribes) {
  attention(query, key, value, o, l);
  std::vector<float> joined(out.size()), joined_lse(lse.size());
  merge(o, l, o, l, TensorView(joined.data(), {B, T, N, H}), TensorView(joined_lse.data(), {B, N, T}));
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(joined[i], out[i], 1e-6);
  for (std::size_t i = 0; i < lse.size(); ++i) EXPECT_NEAR(joined_lse[i], lse[i] + std::log(2.0f), 1e-5);

  std::vector<BFloat16> half(out.size());
  convert(o, TensorView(half.data(), {B, T, N, H}));
  convert(TensorView(half.data(), {B, T, N, H}), TensorView(joined.data(), {B, T, N, H}));
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(joined[i], out[i], std::abs(out[i]) / 256);

  EXPECT_GE(describe(cpu).threads, 1);
  EXPECT_THROW(describe(cuda(99)), Error);
  EXPECT_FALSE(unavailable(Implementation::reference));
  EXPECT_TRUE(unavailable(Implementation::cudnn));
  const nlohmann::json facts = nlohmann::json::parse(info());
  for (const char* name : {"version", "compiler", "cpu", "threads", "devices", "implementations", "libraries"}) {
    EXPECT_TRUE(facts.contains(name)) << name;
  }
  EXPECT_EQ(facts["version"], dhyan_version());
  for (const char* name : {"name", "features", "targets"}) EXPECT_TRUE(facts["cpu"].contains(name)) << name;
  std::size_t on_cpu = 0;
  for (const auto& row : facts["implementations"]) on_cpu += row["device"] == "cpu";
  EXPECT_EQ(on_cpu, 4u);
}

}  // namespace
}  // namespace dhyan::testing

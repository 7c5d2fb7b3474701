// SPDX-License-Identifier: Apache-2.0
// The fused backward pass against the reference, option by option and in pairs, and the same bits for every number of threads.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "cpu/fused.hpp"
#include "reference/reference.hpp"
#include "support/bounds.hpp"
#include "support/case.hpp"
#include "support/compare.hpp"
#include "support/grid.hpp"
#include "support/random.hpp"

namespace dhyan::testing {
namespace {

const core::ImplementationEntry kBackward{
    DHYAN_FUSED,
    "fused backward",
    DHYAN_CPU,
    [](const dhyan_device_description&) { return std::string(); },
    [](const core::Problem&, const dhyan_device_description&) { return std::optional<std::string>(); },
    cpu::plan_fused_backward};

void expect_matches_reference(const Instance& x, const Forward& given) {
  SCOPED_TRACE(describe(x.description));
  const Backward want = exact_backward(x, given);
  const Backward got = backward(kBackward, x, given);
  const BackwardBounds bounds = backward_bounds(x, given, want);
  const auto expect = [](const char* what, const Array& g, const Array& w, const Bound& bound) {
    EXPECT_EQ(g.present(), w.present()) << what;
    if (w.present()) {
      EXPECT_TRUE(within(g, w, bound)) << what;
    }
  };
  expect("grad_query", got.grad_query, want.grad_query, bounds.grad_query);
  expect("grad_key", got.grad_key, want.grad_key, bounds.grad_key);
  expect("grad_value", got.grad_value, want.grad_value, bounds.grad_value);
  expect("grad_bias", got.grad_bias, want.grad_bias, bounds.grad_bias);
  expect("grad_sink", got.grad_sink, want.grad_sink, bounds.grad_sink);
}

void expect_matches_reference(const Case& c) {
  if (left_out(c)) return;
  const Instance x(c, Random(describe(c)));
  expect_matches_reference(x, forward(reference::entry, x));
}

// The options a problem can have, each as what it does to a plain one.
struct Option {
  const char* name;
  std::function<void(Case&)> apply;
};

const std::vector<Option>& options() {
  static const std::vector<Option> all = {
      {"plain", [](Case&) {}},
      {"bf16", [](Case& c) { c.dtype = DHYAN_BF16; }},
      {"f16", [](Case& c) { c.dtype = DHYAN_F16; }},
      {"causal", [](Case& c) { c.causal = DHYAN_CAUSAL_TOP_LEFT; }},
      {"bottom_right", [](Case& c) { c.causal = DHYAN_CAUSAL_BOTTOM_RIGHT; }},
      {"window", [](Case& c) { c.window_left = 40, c.window_right = 9; }},
      {"window_left", [](Case& c) { c.window_left = 70; }},
      {"scale", [](Case& c) { c.scale = -0.3; }},
      {"softcap", [](Case& c) { c.softcap = 2; }},
      {"bias", [](Case& c) { c.bias = DHYAN_F32, c.grad_bias = true; }},
      {"bias_batch",
       [](Case& c) {
         c.bias = DHYAN_F32, c.bias_broadcast = {true, false, false, false}, c.grad_bias = true;
       }},
      {"bias_rows",
       [](Case& c) {
         c.bias = DHYAN_BF16, c.bias_broadcast = {false, false, true, false}, c.grad_bias = true;
       }},
      {"bias_columns",
       [](Case& c) {
         c.bias = DHYAN_F16, c.bias_broadcast = {true, false, false, true}, c.grad_bias = true;
       }},
      {"bias_infinite", [](Case& c) { c.bias = DHYAN_F32, c.bias_minus_infinity = 0.3, c.grad_bias = true; }},
      {"mask",
       [](Case& c) {
         c.mask = true, c.mask_broadcast = {false, true, false, false};
       }},
      {"alibi", [](Case& c) { c.slopes = Slopes::per_batch_and_head; }},
      {"sink", [](Case& c) { c.sink = c.grad_sink = true; }},
      {"lengths",
       [](Case& c) {
         c.query_lengths = {5, c.query_length}, c.key_lengths = {c.key_length, 70};
       }},
      {"empty_sequences",
       [](Case& c) {
         c.query_lengths = {0, -3}, c.key_lengths = {9, 0};
       }},
      {"packed",
       [](Case& c) {
         c.packed = true, c.query_lengths = {67, 30}, c.key_lengths = {140, 3};
       }},
      {"gaps",
       [](Case& c) {
         c.packed = true, c.packing_gap = 3, c.query_lengths = {67, 30}, c.key_lengths = {40, 150};
       }},
      {"dropout", [](Case& c) { c.dropout = 0.3, c.dropout_seed = 7, c.key_origin = 2, c.query_origin = 5; }},
      {"grad_lse", [](Case& c) { c.grad_lse = true; }},
      {"strides", [](Case& c) { c.layout = Layout::unaligned; }},
      {"shared_batch", [](Case& c) { c.layout = Layout::shared_batch; }},
      {"query_only", [](Case& c) { c.grad_key = c.grad_value = false; }},
      {"key_only", [](Case& c) { c.grad_query = c.grad_value = false; }},
      {"value_only", [](Case& c) { c.grad_query = c.grad_key = false; }},
  };
  return all;
}

Case base() {
  Case c;
  c.query_length = 75;
  c.key_length = 150;
  c.query_heads = 2, c.key_heads = 1;
  c.value_head_dim = 40;
  return c;
}

// Bottom-right knows no origins.
bool compatible(const Case& c) {
  const bool origin = c.query_origin != 0 || c.key_origin != 0;
  return !(c.causal == DHYAN_CAUSAL_BOTTOM_RIGHT && origin);
}

TEST(Backward, MatchesTheReferenceForEachOptionAndEachPair) {
  for (std::size_t i = 0; i < options().size(); ++i) {
    for (std::size_t j = i; j < options().size(); ++j) {
      Case c = base();
      options()[i].apply(c);
      options()[j].apply(c);
      c.name = std::string(options()[i].name) + " + " + options()[j].name;
      if (compatible(c)) expect_matches_reference(c);
    }
  }
}

TEST(Backward, MatchesTheReferenceForAwkwardSizes) {
  for (const dhyan_dtype dtype : {DHYAN_F32, DHYAN_BF16}) {
    for (const std::int64_t length : {1, 2, 63, 64, 65, 96, 127, 257, 520}) {
      for (const std::int64_t head_dim : {1, 3, 16, 65, 128}) {
        Case c;
        c.dtype = dtype;
        c.batch = 1;
        c.query_length = length;
        c.key_length = 321 - std::min<std::int64_t>(length, 320);
        c.head_dim = head_dim;
        c.value_head_dim = 66 - std::min<std::int64_t>(head_dim, 65);
        expect_matches_reference(c);
        std::swap(c.query_length, c.key_length);
        c.causal = DHYAN_CAUSAL_BOTTOM_RIGHT;
        expect_matches_reference(c);
      }
    }
  }
}

TEST(Backward, MatchesTheReferenceForTheLargestHeads) {
  for (const auto& [head_dim, value_head_dim] : {std::pair{512, 512}, {192, 128}, {256, 1}, {80, 300}}) {
    Case c;
    c.batch = 1, c.query_heads = 2, c.key_heads = 1;
    c.query_length = 70, c.key_length = 130;
    c.head_dim = head_dim, c.value_head_dim = value_head_dim;
    c.causal = DHYAN_CAUSAL_TOP_LEFT;
    expect_matches_reference(c);
    c.dtype = DHYAN_BF16;
    expect_matches_reference(c);
  }
}

TEST(Backward, SumsTheBiasGradientOverEveryChoiceOfBroadcastDimensions) {
  for (int choice = 0; choice < 16; ++choice) {
    for (const bool packed : {false, true}) {
      Case c;
      c.query_length = 90, c.key_length = 150;
      c.packed = packed;
      if (packed) c.query_lengths = {90, 66}, c.key_lengths = {20, 150};
      c.bias = DHYAN_F32, c.grad_bias = true;
      for (std::size_t i = 0; i < 4; ++i) c.bias_broadcast[i] = (choice >> i) & 1;
      c.softcap = 3, c.causal = DHYAN_CAUSAL_TOP_LEFT;
      expect_matches_reference(c);
      c.grad_query = c.grad_key = c.grad_value = false;
      expect_matches_reference(c);
    }
  }
}

TEST(Backward, ZeroSizesLeaveZeroGradients) {
  for (int choice = 0; choice < 4; ++choice) {
    Case c;
    c.bias = DHYAN_F32, c.grad_bias = true, c.bias_broadcast = {true, false, true, false};
    c.sink = c.grad_sink = true;
    if (choice == 0) c.batch = 0;
    if (choice == 1) c.query_length = 0;
    if (choice == 2) c.key_length = 0;
    if (choice == 3) c.query_heads = c.key_heads = 0;
    expect_matches_reference(c);
  }
}

TEST(Backward, FarLogitsStayFinite) {
  for (const dhyan_dtype dtype : {DHYAN_F32, DHYAN_BF16, DHYAN_F16}) {
    for (const double shift : {-30.0, 30.0, -300.0}) {
      Case c;
      c.dtype = dtype;
      c.query_length = 33, c.key_length = 129;
      c.offset = shift;
      c.causal = DHYAN_CAUSAL_BOTTOM_RIGHT;
      expect_matches_reference(c);
      c.query_length = 1, c.key_length = 128, c.causal = DHYAN_CAUSAL_OFF;
      expect_matches_reference(c);
    }
  }
}

// A shard of a larger problem is given the whole problem's out and lse.
TEST(Backward, UsesTheOutAndLseThatAreGiven) {
  for (const dhyan_dtype dtype : {DHYAN_F32, DHYAN_BF16, DHYAN_F16}) {
    Case c = base();
    c.dtype = dtype;
    c.sink = c.grad_sink = c.grad_lse = true;
    Random random("given");
    const Instance x(c, Random(describe(c)));
    Forward given = forward(reference::entry, x);
    given.out.fill([&](auto...) { return random.normal(); });
    Array lse = given.lse;
    std::vector<double> values = lse.values();
    for (double& value : values) value += 2 * random.uniform();
    values[3] = values[70] = -std::numeric_limits<double>::infinity();
    lse.assign(values);
    expect_matches_reference(x, given);
  }
}

TEST(Backward, ReachesElementsPastTwoToThe31) {
  Case c;
  c.query_length = 3, c.key_length = 5;
  const Instance x(c, Random("far"));
  const Forward given = forward(reference::entry, x);
  const Backward near = backward(kBackward, x, given);

  // The same problem with the batch entries of two inputs and two outputs far apart; untouched pages cost nothing.
  constexpr std::int64_t kApart = (std::int64_t{1} << 31) + 64;
  constexpr std::size_t kBytes = sizeof(float) * (kApart + 4096);
  const auto map = [] {
    return mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  };
  std::array<void*, 4> far = {map(), map(), map(), map()};
  if (std::count(far.begin(), far.end(), MAP_FAILED) > 0) GTEST_SKIP() << "32 GiB of address space are not to be had";
  const auto bytes_of = [](const Array& array) { return sizeof(float) * static_cast<std::size_t>(array.size()) / 2; };
  const auto spread = [&](const Array& from, void* to) {
    const std::size_t half = bytes_of(from);
    std::memcpy(to, from.data(), half);
    std::memcpy(static_cast<float*>(to) + kApart, static_cast<const std::byte*>(from.data()) + half, half);
  };
  spread(x.query, far[0]);
  spread(x.key, far[1]);

  Backward gradients = {near.grad_query.like(), near.grad_key.like(), near.grad_value.like(), {}, {}};
  core::Problem p = backward_problem(x, gradients);
  p.query.strides[0] = p.key.strides[0] = p.grad_query.strides[0] = p.grad_key.strides[0] = kApart;
  core::Buffers buffers = x.buffers();
  buffers.query = far[0];
  buffers.key = far[1];
  buffers.out = const_cast<void*>(given.out.data());
  buffers.lse = const_cast<void*>(given.lse.data());
  buffers.grad_out = x.grad_out.data();
  buffers.grad_query = far[2];
  buffers.grad_key = far[3];
  buffers.grad_value = gradients.grad_value.data();
  const auto plan = cpu::plan_fused_backward(p, test_device());
  std::vector<std::byte> scratch(plan->scratch_bytes() + 64);
  void* aligned = scratch.data();
  std::size_t room = scratch.size();
  plan->run(buffers, std::align(64, plan->scratch_bytes(), aligned, room), nullptr);
  const auto same = [&](const Array& want, const void* got) {
    const std::size_t half = bytes_of(want);
    return std::memcmp(want.data(), got, half) == 0 &&
           std::memcmp(static_cast<const std::byte*>(want.data()) + half, static_cast<const float*>(got) + kApart, half) == 0;
  };
  EXPECT_TRUE(same(near.grad_query, far[2]));
  EXPECT_TRUE(same(near.grad_key, far[3]));
  EXPECT_TRUE(same_bits(gradients.grad_value, near.grad_value));
  for (void* memory : far) munmap(memory, kBytes);
}

TEST(Backward, HasTheSameBitsForEveryNumberOfThreads) {
  const int repeats = small_grid() ? 1 : 5;
  for (const std::size_t option : {0, 1, 2, 3, 5, 10, 11, 12, 19, 21}) {
    Case c = base();
    c.key_length = small_grid() ? 300 : 1100;
    c.sink = c.grad_sink = true;
    options()[option].apply(c);
    c.name = options()[option].name;
    SCOPED_TRACE(describe(c));
    const Instance x(c, Random(describe(c)));
    const Forward given = forward(reference::entry, x);
    const Backward once = backward(kBackward, x, given, 1);
    for (const int threads : {1, 2, 3, 7}) {
      for (int repeat = 0; repeat < repeats; ++repeat) {
        const Backward again = backward(kBackward, x, given, threads);
        EXPECT_TRUE(same_bits(again.grad_query, once.grad_query)) << threads << " threads, grad_query";
        EXPECT_TRUE(same_bits(again.grad_key, once.grad_key)) << threads << " threads, grad_key";
        EXPECT_TRUE(same_bits(again.grad_value, once.grad_value)) << threads << " threads, grad_value";
        if (c.grad_bias) {
          EXPECT_TRUE(same_bits(again.grad_bias, once.grad_bias)) << threads << " threads, grad_bias";
        }
        EXPECT_TRUE(same_bits(again.grad_sink, once.grad_sink)) << threads << " threads, grad_sink";
      }
    }
  }
}

}  // namespace
}  // namespace dhyan::testing

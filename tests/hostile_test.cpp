// SPDX-License-Identifier: Apache-2.0
// What a client may hand in without breaking a rule that could be checked beforehand: sizes of zero, lengths and offsets that
// make no sense, numbers that are none, views far apart. Every implementation answers alike and touches nothing else.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <limits>

#include "api/choose.hpp"
#include "core/convert.hpp"
#include "support/client.hpp"
#include "support/random.hpp"

namespace dhyan::testing {
namespace {

using namespace api;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<dhyan_implementation> available() {
  std::vector<dhyan_implementation> all;
  for (const core::ImplementationEntry* entry : implementations()) {
    if (entry->unavailable(test_device()).empty()) all.push_back(entry->id);
  }
  return all;
}

std::vector<double> numbers(const dhyan_tensor& t) {
  std::int64_t elements = 1;
  for (int i = 0; i < t.rank; ++i) elements *= t.shape[i];
  std::vector<double> all;
  for (std::int64_t i = 0; i < elements; ++i) all.push_back(core::load(t.data, t.dtype, i));
  return all;
}

void fill(dhyan_tensor& t, double value) {
  for (std::size_t i = 0; i < numbers(t).size(); ++i) core::store(t.data, t.dtype, static_cast<std::int64_t>(i), value);
}

// The same values, infinities and NaNs in the same places.
void expect_close(const std::vector<double>& got, const std::vector<double>& want, const char* what) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const bool same = got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]));
    ASSERT_TRUE(same || std::abs(got[i] - want[i]) < 1e-4) << what << '[' << i << "]: " << got[i] << ", not " << want[i];
  }
}

constexpr Slot kOutputs[] = {kOut, kLse, kGradQuery, kGradKey, kGradValue};

// Outputs of a forward and a backward run, poisoned before.
std::vector<std::vector<double>> results(Client& client, dhyan_implementation implementation) {
  client.options.implementation = implementation;
  std::vector<std::vector<double>> all;
  const auto take = [&](std::initializer_list<Slot> slots) {
    for (const Slot slot : slots) all.push_back(numbers(client[slot]));
  };
  for (const Slot slot : kOutputs) fill(client[slot], -77);
  for (const Slot slot : {kGradOut, kGradQuery, kGradKey, kGradValue}) client.remove(slot);
  EXPECT_EQ(client.run_once().message, "");
  take({kOut, kLse});
  for (const Slot slot : {kGradOut, kGradQuery, kGradKey, kGradValue}) client.restore(slot);
  EXPECT_EQ(client.run_once(DHYAN_BACKWARD).message, "");
  take({kGradQuery, kGradKey, kGradValue});
  return all;
}

void expect_alike(Client& client) {
  const auto want = results(client, DHYAN_REFERENCE);
  for (const dhyan_implementation implementation : available()) {
    SCOPED_TRACE(implementation);
    const auto got = results(client, implementation);
    for (std::size_t i = 0; i < want.size(); ++i) expect_close(got[i], want[i], kSlotRows[kOutputs[i]].name);
  }
}

struct Sizes {
  std::int64_t batch = 2, queries = 3, keys = 5, query_heads = 4, key_heads = 2, dim = 8, value_dim = 6;
};

Client dense(const Sizes& z) {
  Client c;
  c.add(kQuery, DHYAN_F32, {z.batch, z.queries, z.query_heads, z.dim});
  c.add(kKey, DHYAN_F32, {z.batch, z.keys, z.key_heads, z.dim});
  c.add(kValue, DHYAN_F32, {z.batch, z.keys, z.key_heads, z.value_dim});
  c.add(kOut, DHYAN_F32, {z.batch, z.queries, z.query_heads, z.value_dim});
  c.add(kLse, DHYAN_F32, {z.batch, z.query_heads, z.queries});
  c.add(kGradOut, DHYAN_F32, {z.batch, z.queries, z.query_heads, z.value_dim});
  c.add(kGradQuery, DHYAN_F32, {z.batch, z.queries, z.query_heads, z.dim});
  c.add(kGradKey, DHYAN_F32, {z.batch, z.keys, z.key_heads, z.dim});
  c.add(kGradValue, DHYAN_F32, {z.batch, z.keys, z.key_heads, z.value_dim});
  return c;
}

Client packed(std::int64_t batch, std::int64_t query_tokens, std::int64_t key_tokens) {
  Client c;
  c.add(kQuery, DHYAN_F32, {query_tokens, 4, 8});
  c.add(kKey, DHYAN_F32, {key_tokens, 2, 8});
  c.add(kValue, DHYAN_F32, {key_tokens, 2, 6});
  c.add(kOut, DHYAN_F32, {query_tokens, 4, 6});
  c.add(kLse, DHYAN_F32, {4, query_tokens});
  c.add(kGradOut, DHYAN_F32, {query_tokens, 4, 6});
  c.add(kGradQuery, DHYAN_F32, {query_tokens, 4, 8});
  c.add(kGradKey, DHYAN_F32, {key_tokens, 2, 8});
  c.add(kGradValue, DHYAN_F32, {key_tokens, 2, 6});
  c.add(kQueryOffsets, DHYAN_I64, {batch + 1});
  c.add(kKeyOffsets, DHYAN_I64, {batch + 1});
  return c;
}

template <class Integer>
void set(Client& client, Slot slot, const std::vector<Integer>& values) {
  std::copy(values.begin(), values.end(), static_cast<Integer*>(client[slot].data));
}

TEST(Hostile, AnySizesMayBeZeroTogether) {
  for (int zeros = 0; zeros < 64; ++zeros) {
    SCOPED_TRACE(zeros);
    Sizes z;
    if (zeros & 1) z.batch = 0;
    if (zeros & 2) z.queries = 0;
    if (zeros & 4) z.keys = 0;
    if (zeros & 8) z.query_heads = z.key_heads = 0;
    if (zeros & 16) z.dim = 0;
    if (zeros & 32) z.value_dim = 0;
    Client client = dense(z);
    expect_alike(client);
    if (z.keys == 0) {
      for (const double x : numbers(client[kOut])) EXPECT_EQ(x, 0);
      for (const double x : numbers(client[kLse])) EXPECT_EQ(x, -kInfinity);
      for (const double x : numbers(client[kGradQuery])) EXPECT_EQ(x, 0);
    }
    if (z.queries == 0) {
      for (const double x : numbers(client[kGradKey])) EXPECT_EQ(x, 0);
      for (const double x : numbers(client[kGradValue])) EXPECT_EQ(x, 0);
    }
  }
}

TEST(Hostile, ZeroQueryHeadsOverSomeKeyHeadsGiveZeroGradients) {
  Sizes z;
  z.query_heads = 0;
  Client client = dense(z);
  expect_alike(client);
  for (const double x : numbers(client[kGradKey])) EXPECT_EQ(x, 0);
}

TEST(Hostile, LengthsAreClampedToTheExtent) {
  const std::vector<std::int32_t> odd = {INT32_MIN, -1, 0, 1, 2, 3, 5, 6, 1000, INT32_MAX};
  for (const std::int32_t queries : odd) {
    for (const std::int32_t keys : odd) {
      SCOPED_TRACE(std::to_string(queries) + " and " + std::to_string(keys));
      Client client = dense({});
      client.add(kQueryLengths, DHYAN_I32, {2});
      client.add(kKeyLengths, DHYAN_I32, {2});
      set<std::int32_t>(client, kQueryLengths, {queries, 3});
      set<std::int32_t>(client, kKeyLengths, {5, keys});
      client.options.causal = DHYAN_CAUSAL_BOTTOM_RIGHT;
      expect_alike(client);
    }
  }
}

TEST(Hostile, OffsetsAreClampedToTheTokens) {
  const std::vector<std::vector<std::int64_t>> odd = {
      {0, 3, 7},          {0, 0, 0}, {7, 7, 7}, {-5, 3, 100}, {INT64_MIN, 2, INT64_MAX},        {100, 200, 300},
      {-300, -200, -100}, {3, 3, 7}, {0, 7, 3}, {5, 2, 7},    {INT64_MAX, INT64_MAX, INT64_MIN}};
  for (const auto& queries : odd) {
    for (const auto& keys : odd) {
      SCOPED_TRACE(std::to_string(queries[0]) + ',' + std::to_string(queries[1]) + ',' + std::to_string(queries[2]) + " and " +
                   std::to_string(keys[0]) + ',' + std::to_string(keys[1]) + ',' + std::to_string(keys[2]));
      Client client = packed(2, 7, 7);
      set(client, kQueryOffsets, queries);
      set(client, kKeyOffsets, keys);
      expect_alike(client);
    }
  }
}

// Sequences that share tokens break a rule that only the data shows. The result is unspecified; memory is not.
TEST(Hostile, OverlappingSequencesAndBadLengthsStayInside) {
  Random random("overlapping");
  for (int round = 0; round < 200; ++round) {
    Client client = packed(3, 9, 11);
    for (const Slot slot : {kQueryLengths, kKeyLengths}) client.add(slot, DHYAN_I32, {3});
    for (const Slot slot : {kQueryOffsets, kKeyOffsets}) {
      set<std::int64_t>(client, slot,
                        {random.integer(-4, 15), random.integer(-4, 15), random.integer(-4, 15), random.integer(-4, 15)});
    }
    for (const Slot slot : {kQueryLengths, kKeyLengths}) {
      const auto length = [&] { return static_cast<std::int32_t>(random.integer(-3, 14)); };
      set<std::int32_t>(client, slot, {length(), length(), length()});
    }
    client.options.max_query_length = random.integer(0, 12);
    client.options.max_key_length = random.integer(0, 12);
    for (const dhyan_implementation implementation : available()) results(client, implementation);
  }
}

TEST(Hostile, APackingWithoutSequencesIsAllGaps) {
  Client client = packed(0, 4, 5);
  expect_alike(client);
  for (const double x : numbers(client[kOut])) EXPECT_EQ(x, 0);
  for (const double x : numbers(client[kLse])) EXPECT_EQ(x, -kInfinity);
  for (const double x : numbers(client[kGradKey])) EXPECT_EQ(x, 0);
}

TEST(Hostile, SequencesLongerThanTheMaximumAreCut) {
  Client client = packed(2, 7, 9);
  set<std::int64_t>(client, kQueryOffsets, {0, 4, 7});
  set<std::int64_t>(client, kKeyOffsets, {0, 5, 9});
  client.options.max_query_length = 2;
  client.options.max_key_length = 3;
  expect_alike(client);
  client.options.max_query_length = 100;
  client.options.max_key_length = 1000;
  expect_alike(client);
}

TEST(Hostile, NumbersThatAreNoneReachOnlyTheRowsThatSeeThem) {
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity}) {
    Client client = dense({});
    client.add(kKeyLengths, DHYAN_I32, {2});
    set<std::int32_t>(client, kKeyLengths, {5, 2});
    // Batch entry 1 has two keys; the others are not there, whatever they hold.
    for (std::int64_t s = 2; s < 5; ++s) {
      core::store(client[kKey].data, DHYAN_F32, (5 + s) * 16, bad);
      core::store(client[kValue].data, DHYAN_F32, (5 + s) * 12, bad);
    }
    expect_alike(client);
    for (const double x : numbers(client[kOut])) EXPECT_TRUE(std::isfinite(x));
    for (const double x : numbers(client[kGradQuery])) EXPECT_TRUE(std::isfinite(x));

    // A query that is no number spoils its own row and no other.
    core::store(client[kQuery].data, DHYAN_F32, 0, std::numeric_limits<double>::quiet_NaN());
    for (const dhyan_implementation implementation : available()) {
      results(client, implementation);
      const auto out = numbers(client[kOut]);
      EXPECT_TRUE(std::isnan(out[0])) << implementation;
      for (std::size_t i = 6; i < out.size(); ++i) EXPECT_TRUE(std::isfinite(out[i])) << implementation << ", element " << i;
    }
  }
}

TEST(Hostile, ASinkThatIsNoNumberSpoilsItsHead) {
  Client client = dense({});
  client.add(kSink, DHYAN_F32, {4});
  for (std::int64_t n = 0; n < 4; ++n) core::store(client[kSink].data, DHYAN_F32, n, n == 1 ? std::nan("") : -0.5);
  expect_alike(client);
  const auto lse = numbers(client[kLse]);
  for (std::size_t i = 0; i < lse.size(); ++i) EXPECT_EQ(std::isnan(lse[i]), i / 3 % 4 == 1) << i;
}

// Views whose batch entries lie over 2^31 elements apart, in memory that is only reserved.
TEST(Hostile, ElementsBeyondTwoToThe31AreReached) {
  constexpr std::int64_t kStride = (std::int64_t{1} << 31) + 4096;
  constexpr std::size_t kBytes = (static_cast<std::size_t>(kStride) + 4096) * sizeof(float);
  Client near = dense({});
  Client far = dense({});
  std::vector<void*> mapped;
  const auto inputs = {kQuery, kKey, kValue, kGradOut};
  for (const Slot slot : {kQuery, kKey, kValue, kOut, kGradOut, kGradQuery, kGradKey, kGradValue}) {
    void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      for (void* m : mapped) munmap(m, kBytes);
      GTEST_SKIP() << "no address space for views of 8 GiB";
    }
    mapped.push_back(memory);
    dhyan_tensor& t = far[slot];
    const std::int64_t entry = t.strides[0];
    t.data = memory;
    t.strides[0] = kStride;
    if (std::find(inputs.begin(), inputs.end(), slot) == inputs.end()) continue;
    for (std::int64_t b = 0; b < 2; ++b) {
      std::copy_n(static_cast<const float*>(near[slot].data) + b * entry, entry, static_cast<float*>(memory) + b * kStride);
    }
  }
  far[kLse].data = near[kLse].data;
  for (const dhyan_implementation implementation : available()) {
    SCOPED_TRACE(implementation);
    results(near, implementation);
    far.options.implementation = implementation;
    for (const Slot slot : {kGradOut, kGradQuery, kGradKey, kGradValue}) far.remove(slot);
    ASSERT_EQ(far.run_once().message, "");
    for (const Slot slot : {kGradOut, kGradQuery, kGradKey, kGradValue}) far.restore(slot);
    ASSERT_EQ(far.run_once(DHYAN_BACKWARD).message, "");
    for (const Slot slot : {kOut, kGradQuery, kGradKey, kGradValue}) {
      const std::int64_t entry = near[slot].strides[0];
      for (std::int64_t i = 0; i < 2 * entry; ++i) {
        const float got = static_cast<const float*>(far[slot].data)[i / entry * kStride + i % entry];
        ASSERT_EQ(got, static_cast<const float*>(near[slot].data)[i]) << kSlotRows[slot].name << ", element " << i;
      }
    }
  }
  for (void* memory : mapped) munmap(memory, kBytes);
}

// Plans hold no memory, so problems far larger than the machine can be planned, or refused with the bytes they lack.
TEST(Hostile, HugeProblemsArePlannedOrRefusedWithoutTouchingMemory) {
  for (const std::int64_t length : {std::int64_t{65536}, std::int64_t{1} << 20, std::int64_t{1} << 27}) {
    for (const dhyan_implementation implementation : available()) {
      for (const dhyan_direction direction : {DHYAN_FORWARD, DHYAN_BACKWARD}) {
        SCOPED_TRACE(std::to_string(length) + " tokens, implementation " + std::to_string(implementation));
        Client client = direction == DHYAN_FORWARD ? small_forward() : small_backward();
        client.options.implementation = implementation;
        const auto stretch = [&](std::initializer_list<Slot> slots, int dim) {
          for (const Slot slot : slots) {
            dhyan_tensor& t = client[slot];
            if (t.dtype == DHYAN_NONE) continue;
            t.shape[dim] = length;
            for (int i = t.rank - 2; i >= 0; --i) t.strides[i] = t.strides[i + 1] * t.shape[i + 1];
          }
        };
        stretch({kQuery, kKey, kValue, kOut, kGradOut, kGradQuery, kGradKey, kGradValue}, 1);
        stretch({kLse}, 2);
        const Answer answer = client.make_plan(direction);
        if (answer.status == DHYAN_OK) continue;
        EXPECT_EQ(implementation, DHYAN_NAIVE) << answer.message;
        EXPECT_EQ(answer.status, DHYAN_UNSUPPORTED);
        EXPECT_NE(answer.message.find("bytes"), std::string::npos) << answer.message;
      }
    }
  }
}

}  // namespace
}  // namespace dhyan::testing

// SPDX-License-Identifier: Apache-2.0
// Whether two views share memory, against the set of bytes each of them holds.
#include <gtest/gtest.h>

#include <set>

#include "api/tensor.hpp"
#include "core/convert.hpp"
#include "support/client.hpp"
#include "support/random.hpp"

namespace dhyan::testing {
namespace {

using namespace api;

std::set<std::uintptr_t> bytes_of(const api::Layout& layout, std::uintptr_t begin) {
  std::set<std::uintptr_t> bytes;
  const auto element = core::size_of(layout.dtype);
  std::array<std::int64_t, 4> at{};
  if (layout.elements == 0) return bytes;
  while (true) {
    std::uintptr_t first = begin;
    for (int i = 0; i < layout.rank; ++i) first += static_cast<std::uintptr_t>(at[i] * layout.strides[i]) * element;
    for (std::size_t byte = 0; byte < element; ++byte) bytes.insert(first + byte);
    int i = 0;
    while (i < layout.rank && ++at[i] == layout.shape[i]) at[i++] = 0;
    if (i == layout.rank) return bytes;
  }
}

api::Layout random_layout(Random& random) {
  constexpr dhyan_dtype kDtypes[] = {DHYAN_F64, DHYAN_F32, DHYAN_BF16, DHYAN_BOOL};
  dhyan_tensor t;
  dhyan_tensor_init(&t);
  t.dtype = kDtypes[random.integer(0, 3)];
  t.rank = static_cast<std::int32_t>(random.integer(0, 4));
  for (int i = 0; i < t.rank; ++i) {
    t.shape[i] = random.integer(0, 20) == 0 ? 0 : random.integer(1, 4);
    t.strides[i] = i == t.rank - 1 ? 1 : random.integer(0, 40);
  }
  return read_layout(t, "view");
}

TEST(Overlap, IsFoundExactlyWhereAByteIsShared) {
  Random random("overlap");
  int shared = 0;
  int apart_within = 0;  // byte ranges meet, yet no byte is shared
  for (int round = 0; round < 20000; ++round) {
    const api::Layout a = random_layout(random);
    const api::Layout b = random_layout(random);
    const auto a_begin = static_cast<std::uintptr_t>(4096);
    const auto b_begin = static_cast<std::uintptr_t>(4096 + random.integer(-300, 300));
    const auto a_bytes = bytes_of(a, a_begin);
    bool want = false;
    const auto b_bytes = bytes_of(b, b_begin);
    for (const std::uintptr_t byte : b_bytes) want |= a_bytes.count(byte) > 0;
    const bool got = overlap(a, reinterpret_cast<const void*>(a_begin), b, reinterpret_cast<const void*>(b_begin));
    ASSERT_EQ(got, want) << shape_text(a) << " and " << shape_text(b) << ", seed " << run_seed();
    shared += want;
    if (!want && !a_bytes.empty() && !b_bytes.empty()) {
      apart_within += *a_bytes.begin() <= *b_bytes.rbegin() && *b_bytes.begin() <= *a_bytes.rbegin();
    }
  }
  EXPECT_GT(shared, 1000);
  EXPECT_GT(apart_within, 1000);
}

TEST(Overlap, AViewThatNestsDoesNotOverlapItself) {
  Random random("self overlap");
  int nested = 0;
  for (int round = 0; round < 20000; ++round) {
    const api::Layout a = random_layout(random);
    if (overlaps_itself(a)) continue;
    ++nested;
    EXPECT_EQ(bytes_of(a, 0).size(), static_cast<std::size_t>(a.elements) * core::size_of(a.dtype)) << shape_text(a);
  }
  EXPECT_GT(nested, 1000);
}

TEST(Overlap, LargeInterleavedViewsAreDecidedExactly) {
  // Heads of two tensors taken in turns, in a buffer far too large to look at byte by byte.
  dhyan_tensor t;
  dhyan_tensor_init(&t);
  t.dtype = DHYAN_BF16;
  t.rank = 4;
  const std::int64_t shape[] = {16, 65536, 32, 128};
  const std::int64_t strides[] = {65536 * 64 * 128, 64 * 128, 2 * 128, 1};
  std::copy_n(shape, 4, t.shape);
  std::copy_n(strides, 4, t.strides);
  const api::Layout view = read_layout(t, "view");
  const std::uintptr_t begin = 1 << 20;
  const auto at = [&](std::uintptr_t bytes) { return reinterpret_cast<const void*>(begin + bytes); };
  EXPECT_FALSE(overlap(view, at(0), view, at(256)));
  EXPECT_FALSE(overlap(view, at(256), view, at(0)));
  EXPECT_TRUE(overlap(view, at(0), view, at(254)));
  EXPECT_TRUE(overlap(view, at(258), view, at(0)));
  EXPECT_TRUE(overlap(view, at(0), view, at(512)));
}

// [batch, length, 3, heads, head_dim] holds all of query, key and value; its gradients likewise.
struct Interleaved {
  Interleaved() : client(small_backward()), storage(2 * 3 * 3 * 2 * 8, -7.0f) {
    client.add(kQuery, DHYAN_F32, {2, 3, 2, 8});
    for (const Slot slot : {kKey, kValue, kGradOut}) client.add(slot, DHYAN_F32, {2, 3, 2, 8});
    client.add(kOut, DHYAN_F32, {2, 3, 2, 8});
    client.add(kLse, DHYAN_F32, {2, 2, 3});
    for (const Slot slot : {kGradQuery, kGradKey, kGradValue}) client.add(slot, DHYAN_F32, {2, 3, 2, 8});
  }
  void interleave() {
    int part = 0;
    for (const Slot slot : {kGradQuery, kGradKey, kGradValue}) {
      dhyan_tensor& t = client[slot];
      t.data = storage.data() + 16 * part++;
      t.strides[0] = 3 * 3 * 16;
      t.strides[1] = 3 * 16;
    }
  }
  Client client;
  std::vector<float> storage;
};

TEST(Overlap, GradientsMayBeSlicesOfOneBuffer) {
  Interleaved x;
  for (const Slot slot : {kGradOut, kGradQuery, kGradKey, kGradValue}) x.client.remove(slot);
  ASSERT_EQ(x.client.run_once().message, "");
  Interleaved apart;
  Interleaved sliced;
  sliced.interleave();
  for (Interleaved* y : {&apart, &sliced}) {
    y->client[kOut].data = x.client[kOut].data;
    y->client[kLse].data = x.client[kLse].data;
    y->client.options.check_pointers = 1;
    ASSERT_EQ(y->client.run_once(DHYAN_BACKWARD).message, "");
    ASSERT_EQ(y->client.run_plan(DHYAN_BACKWARD).message, "");
  }
  for (const Slot slot : {kGradQuery, kGradKey, kGradValue}) {
    for (int b = 0; b < 2; ++b)
      for (int t = 0; t < 3; ++t)
        for (int i = 0; i < 16; ++i) {
          const float want = static_cast<const float*>(apart.client[slot].data)[(b * 3 + t) * 16 + i];
          EXPECT_EQ(static_cast<const float*>(sliced.client[slot].data)[(b * 3 + t) * 48 + i], want);
        }
  }
}

TEST(Overlap, GradientsThatShareOneElementAreRefused) {
  Interleaved x;
  x.interleave();
  x.client[kGradKey].data = static_cast<float*>(x.client[kGradKey].data) - 1;
  EXPECT_EQ(x.client.run_once(DHYAN_BACKWARD).message,
            "grad_query: shares memory with grad_key, an output must not overlap any other tensor");
}

TEST(Overlap, OutputsOverInputsAreRefused) {
  Client same = small_forward();
  same.add(kValue, DHYAN_F32, {2, 5, 2, 8});
  same.add(kOut, DHYAN_F32, {2, 3, 4, 8}).data = same[kQuery].data;
  EXPECT_EQ(same.run_once().message, "out: shares memory with query, an output must not overlap any other tensor");

  Client edge = small_forward();
  edge[kLse].data = static_cast<float*>(edge[kOut].data) + 2 * 3 * 4 * 6 - 1;
  EXPECT_EQ(edge.run_once().message, "out: shares memory with lse, an output must not overlap any other tensor");
}

TEST(Overlap, PlansLookOnlyWhenAsked) {
  Client client = small_forward();
  client.add(kValue, DHYAN_F32, {2, 5, 2, 8});
  client.add(kOut, DHYAN_F32, {2, 3, 4, 8}).data = client[kQuery].data;
  EXPECT_EQ(client.run_plan().message, "");
  client.options.check_pointers = 1;
  EXPECT_EQ(client.run_plan().message, "out: shares memory with query, an output must not overlap any other tensor");
}

}  // namespace
}  // namespace dhyan::testing

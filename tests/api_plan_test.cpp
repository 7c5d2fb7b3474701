// SPDX-License-Identifier: Apache-2.0
// Plans, one-shot calls, scratch, alignment, struct sizes and threads, seen from the C interface.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <thread>

#include "api/abi.hpp"
#include "api/one_shot.hpp"
#include "api/scratch.hpp"
#include "core/convert.hpp"
#include "core/error.hpp"
#include "cuda/device.hpp"
#include "support/client.hpp"
#include "support/random.hpp"

namespace dhyan::testing {
namespace {

using namespace api;

struct DestroyPlan {
  void operator()(dhyan_plan* plan) const { dhyan_plan_destroy(plan); }
};
using PlanPointer = std::unique_ptr<dhyan_plan, DestroyPlan>;

PlanPointer plan_of(Client& client, dhyan_direction direction = DHYAN_FORWARD) {
  char message[256];
  dhyan_plan* plan = nullptr;
  EXPECT_EQ(dhyan_plan_create(client.problem(), direction, nullptr, &plan, message, sizeof message), DHYAN_OK) << message;
  return PlanPointer(plan);
}

std::string run(const dhyan_plan* plan, const dhyan_buffers& buffers, void* scratch = nullptr, std::size_t bytes = 0,
                void* stream = nullptr) {
  char message[256];
  dhyan_plan_run(plan, &buffers, scratch, bytes, stream, message, sizeof message);
  return message;
}

std::vector<std::byte> contents(const dhyan_tensor& t) {
  std::int64_t elements = 1;
  for (int i = 0; i < t.rank; ++i) elements *= t.shape[i];
  std::vector<std::byte> bytes(static_cast<std::size_t>(elements) * core::size_of(t.dtype));
  std::memcpy(bytes.data(), t.data, bytes.size());
  return bytes;
}

void poison(dhyan_tensor& t) { std::memset(t.data, 0xFF, contents(t).size()); }

TEST(Plan, GivesTheBitsOfAOneShotCall) {
  for (const dhyan_dtype dtype : {DHYAN_F64, DHYAN_F32, DHYAN_F16, DHYAN_BF16}) {
    for (const dhyan_direction direction : {DHYAN_FORWARD, DHYAN_BACKWARD}) {
      Client one = direction == DHYAN_FORWARD ? small_forward(dtype) : small_backward(dtype);
      const Slot output = direction == DHYAN_FORWARD ? kOut : kGradKey;
      poison(one[output]);
      ASSERT_EQ(one.run_once(direction).message, "");
      const auto want = contents(one[output]);
      poison(one[output]);
      ASSERT_EQ(one.run_plan(direction).message, "");
      EXPECT_EQ(contents(one[output]), want) << core::name_of(dtype);
    }
  }
}

TEST(Plan, SaysWhatWasChosenAndWhatWasPassedOver) {
  Client client = small_forward(DHYAN_F64);
  const PlanPointer plan = plan_of(client);
  std::string text(dhyan_plan_describe(plan.get(), nullptr, 0), '?');
  EXPECT_EQ(dhyan_plan_describe(plan.get(), text.data(), text.size() + 1), text.size());
  EXPECT_EQ(text.find('?'), std::string::npos);
  EXPECT_NE(text.find("auto: the fastest that supports this problem"), std::string::npos) << text;
  EXPECT_NE(text.find("passed over fused: "), std::string::npos) << text;
  EXPECT_NE(dhyan_plan_implementation(plan.get()), DHYAN_FUSED);
  EXPECT_NE(dhyan_plan_implementation(plan.get()), DHYAN_AUTO);

  client.options.implementation = DHYAN_REFERENCE;
  const PlanPointer named = plan_of(client);
  EXPECT_EQ(dhyan_plan_implementation(named.get()), DHYAN_REFERENCE);
}

TEST(Plan, AnImplementationThatCannotRunIsAnErrorThatSaysWhatWould) {
  Client client = small_forward(DHYAN_F64);
  client.options.implementation = DHYAN_FUSED;
  const Answer fused = client.make_plan();
  EXPECT_EQ(fused.status, DHYAN_UNSUPPORTED);
  EXPECT_NE(fused.message.find("implementation: fused cannot run this problem: "), std::string::npos) << fused.message;
  EXPECT_NE(fused.message.find("these can: reference"), std::string::npos) << fused.message;
  client.options.implementation = DHYAN_CUDNN;
  const Answer cudnn = client.run_once();
  EXPECT_EQ(cudnn.status, DHYAN_UNSUPPORTED);
  EXPECT_NE(cudnn.message.find("it needs an NVIDIA GPU"), std::string::npos) << cudnn.message;
}

TEST(Plan, PointersAreCheckedAtEveryRun) {
  Client client = small_forward();
  const PlanPointer plan = plan_of(client);
  const dhyan_buffers good = client.buffers();
  EXPECT_EQ(run(plan.get(), good), "");

  dhyan_buffers missing = good;
  missing.key = nullptr;
  EXPECT_EQ(run(plan.get(), missing), "key: NULL, a tensor with elements needs its pointer");
  dhyan_buffers surplus = good;
  surplus.bias = client[kQuery].data;
  EXPECT_EQ(run(plan.get(), surplus), "bias: a pointer is given, the plan has no such tensor; leave it NULL");
  dhyan_buffers shifted = good;
  shifted.value = static_cast<const float*>(shifted.value) + 1;
  EXPECT_EQ(run(plan.get(), shifted), "value: pointer aligned to 4 bytes, it must be aligned to 8");
  EXPECT_EQ(run(plan.get(), good, nullptr, 0, &client), "stream: not NULL, a CPU has no streams");
  EXPECT_EQ(run(nullptr, good), "plan: NULL, a plan is required");
}

TEST(Plan, AlignmentIsThePromiseOrWhatTheStridesAllow) {
  Client promised = small_forward();
  promised[kQuery].alignment = 64;
  const PlanPointer plan = plan_of(promised);
  dhyan_buffers buffers = promised.buffers();
  EXPECT_EQ(run(plan.get(), buffers), "");
  std::vector<float> elsewhere(2 * 3 * 4 * 8 + 32);
  const auto address = reinterpret_cast<std::uintptr_t>(elsewhere.data());
  auto* aligned = elsewhere.data() + (64 - address % 64) % 64 / sizeof(float);
  buffers.query = aligned + 4;
  EXPECT_EQ(run(plan.get(), buffers), "query: pointer aligned to 16 bytes, it must be aligned to 64");
  buffers.query = aligned;
  EXPECT_EQ(run(plan.get(), buffers), "");

  Client element = small_forward();
  element[kQuery].alignment = 4;
  const PlanPointer least = plan_of(element);
  buffers = element.buffers();
  buffers.query = aligned + 1;
  EXPECT_EQ(run(least.get(), buffers), "");
  buffers.query = reinterpret_cast<const std::byte*>(aligned) + 2;
  EXPECT_EQ(run(least.get(), buffers), "query: pointer aligned to 2 bytes, it must be aligned to 4");
}

TEST(OneShot, ReadsAlignmentOffThePointers) {
  Client client = small_forward();
  ASSERT_EQ(client.run_once().message, "");
  const auto want = contents(client[kOut]);
  std::vector<float> shifted(2 * 3 * 4 * 8 + 1);
  std::memcpy(shifted.data() + 1, client[kQuery].data, sizeof(float) * (shifted.size() - 1));
  client[kQuery].data = shifted.data() + 1;
  poison(client[kOut]);
  EXPECT_EQ(client.run_once().message, "");
  EXPECT_EQ(contents(client[kOut]), want);

  client[kQuery].data = reinterpret_cast<std::byte*>(shifted.data()) + 2;
  EXPECT_EQ(client.run_once().message, "query: pointer aligned to 2 bytes, it must be aligned to 4");
  client[kQuery].data = nullptr;
  EXPECT_EQ(client.run_once().message, "query: NULL, a tensor with elements needs its pointer");
}

TEST(OneShot, PlansAreKeptAndBounded) {
  dhyan_trim();
  EXPECT_EQ(cached_plans(), 0u);
  Client client;
  for (int length = 1; length <= 3 * static_cast<int>(kMaxCachedPlans); ++length) {
    client = small_forward();
    client.add(kKey, DHYAN_F32, {2, length, 2, 8});
    client.add(kValue, DHYAN_F32, {2, length, 2, 6});
    ASSERT_EQ(client.run_once().message, "");
    EXPECT_LE(cached_plans(), kMaxCachedPlans);
  }
  EXPECT_EQ(cached_plans(), kMaxCachedPlans);
  const std::size_t made = made_plans();
  for (int i = 0; i < 10; ++i) client.run_once();
  EXPECT_EQ(made_plans(), made);
  client.options.scale = 0.5;
  client.run_once();
  EXPECT_EQ(made_plans(), made + 1);
  dhyan_trim();
  EXPECT_EQ(cached_plans(), 0u);
}

TEST(OneShot, TheLeastRecentlyUsedPlanGoes) {
  dhyan_trim();
  Client kept = small_forward();
  ASSERT_EQ(kept.run_once().message, "");
  Client other = small_forward();
  for (int i = 0; i < 2 * static_cast<int>(kMaxCachedPlans); ++i) {
    other.options.scale = 1 + i;
    other.run_once();
    kept.run_once();
  }
  const std::size_t made = made_plans();
  kept.run_once();
  EXPECT_EQ(made_plans(), made);
  other.options.scale = 1;
  other.run_once();
  EXPECT_EQ(made_plans(), made + 1);
}

TEST(Scratch, OfTheCallerMayHoldAnything) {
  for (const dhyan_direction direction : {DHYAN_FORWARD, DHYAN_BACKWARD}) {
    Client client = direction == DHYAN_FORWARD ? small_forward() : small_backward();
    const Slot output = direction == DHYAN_FORWARD ? kOut : kGradQuery;
    const PlanPointer plan = plan_of(client, direction);
    ASSERT_EQ(run(plan.get(), client.buffers()), "");
    const auto want = contents(client[output]);
    const std::size_t needed = dhyan_plan_scratch_bytes(plan.get());
    ASSERT_GT(needed, 0u);
    std::vector<std::byte> memory(needed + 128, std::byte{0xFF});
    const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
    std::byte* scratch = memory.data() + (64 - address % 64) % 64;
    poison(client[output]);
    EXPECT_EQ(run(plan.get(), client.buffers(), scratch, needed), "");
    EXPECT_EQ(contents(client[output]), want);
    for (const std::byte* at = scratch + needed; at < memory.data() + memory.size(); ++at) EXPECT_EQ(*at, std::byte{0xFF});

    const std::string bytes = std::to_string(needed);
    EXPECT_EQ(run(plan.get(), client.buffers(), scratch, needed - 1),
              "scratch: " + std::to_string(needed - 1) + " bytes, this plan needs " + bytes);
    EXPECT_EQ(run(plan.get(), client.buffers(), scratch + 32, needed), "scratch: not aligned to 64 bytes, it must be");
    EXPECT_EQ(run(plan.get(), client.buffers(), nullptr, needed),
              "scratch: NULL with " + bytes + " bytes, give both or neither");
  }
}

TEST(Scratch, OfTheLibraryIsReusedAndGivenBack) {
  trim_scratch();
  void* first = nullptr;
  {
    const api::Scratch block(5000);
    first = block.data();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % kScratchAlignment, 0u);
    std::memset(first, 1, 5000);
    EXPECT_EQ(kept_scratch_bytes(), 0u);
  }
  EXPECT_GE(kept_scratch_bytes(), 5000u);
  {
    const api::Scratch again(4000);
    EXPECT_EQ(again.data(), first);
    const api::Scratch another(4000);
    EXPECT_NE(another.data(), first);
  }
  { const api::Scratch large(std::size_t{300} << 20); }
  EXPECT_LT(kept_scratch_bytes(), std::size_t{256} << 20);
  trim_scratch();
  EXPECT_EQ(kept_scratch_bytes(), 0u);
}

TEST(Scratch, ThatCannotBeHadIsAnErrorWithItsSize) {
#ifdef __SANITIZE_ADDRESS__
  const std::vector<std::size_t> sizes = {SIZE_MAX - 100};  // its allocator ends the program for anything it could try
#else
  const std::vector<std::size_t> sizes = {SIZE_MAX - 100, std::size_t{1} << 62};
#endif
  for (const std::size_t size : sizes) {
    try {
      const api::Scratch block(size);
      FAIL() << size << " bytes were found";
    } catch (const core::Error& error) {
      EXPECT_EQ(error.status(), DHYAN_OUT_OF_MEMORY);
      EXPECT_EQ(std::string(error.what()), "scratch: " + std::to_string(size) + " bytes, out of memory");
    }
  }
}

TEST(Threads, ManyMayCallAtOnce) {
  constexpr int kThreads = 8;
  constexpr int kRounds = 30;
  Client shared = small_forward();
  const PlanPointer plan = plan_of(shared);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      Client own = small_forward(i % 2 ? DHYAN_F32 : DHYAN_BF16);
      own.add(kKey, own[kQuery].dtype, {2, 5 + i % 3, 2, 8});
      own.add(kValue, own[kQuery].dtype, {2, 5 + i % 3, 2, 6});
      own.options.threads = 1 + i % 3;
      if (own.run_once().status != DHYAN_OK) ++wrong;
      const auto want = contents(own[kOut]);
      Client planned = small_forward();
      for (int round = 0; round < kRounds; ++round) {
        poison(own[kOut]);
        if (own.run_once().status != DHYAN_OK || contents(own[kOut]) != want) ++wrong;
        if (!run(plan.get(), planned.buffers()).empty()) ++wrong;
        if (i == 0 && round % 5 == 0) dhyan_trim();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

// A struct followed by what a newer header may have added.
template <class Struct>
struct Newer {
  Struct known;
  std::int64_t added = 0;
};

TEST(StructSize, NewerStructsMustHoldZerosInWhatIsUnknown) {
  Client client = small_forward();
  Newer<dhyan_options> options;
  dhyan_options_init_sized(&options.known, sizeof options);
  EXPECT_EQ(options.known.struct_size, sizeof options);
  EXPECT_EQ(options.known.window_left, -1);
  dhyan_problem problem = *client.problem();
  problem.options = &options.known;
  char message[256];
  EXPECT_EQ(dhyan_attention(&problem, nullptr, message, sizeof message), DHYAN_OK) << message;
  options.added = 1;
  EXPECT_EQ(dhyan_attention(&problem, nullptr, message, sizeof message), DHYAN_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(message), "options: unknown non-zero field at byte " + std::to_string(sizeof(dhyan_options)) +
                                      ", this library (" + std::to_string(sizeof(dhyan_options)) +
                                      " bytes) is older than the header that set it");

  problem = *client.problem();
  Newer<dhyan_tensor> query{*problem.query, 5};
  query.known.struct_size = sizeof query;
  problem.query = &query.known;
  EXPECT_EQ(dhyan_attention(&problem, nullptr, message, sizeof message), DHYAN_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(message).rfind("query: unknown non-zero field", 0), 0u) << message;

  Newer<dhyan_problem> newer{*client.problem(), 7};
  newer.known.struct_size = sizeof newer;
  EXPECT_EQ(dhyan_attention(&newer.known, nullptr, message, sizeof message), DHYAN_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(message).rfind("problem: unknown non-zero field", 0), 0u) << message;

  const PlanPointer plan = plan_of(client);
  Newer<dhyan_buffers> buffers{client.buffers(), 7};
  buffers.known.struct_size = sizeof buffers;
  EXPECT_EQ(dhyan_plan_run(plan.get(), &buffers.known, nullptr, 0, nullptr, message, sizeof message), DHYAN_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(message).rfind("buffers: unknown non-zero field", 0), 0u) << message;
}

TEST(StructSize, ThatWasNeverSetIsRefused) {
  Client client = small_forward();
  for (const std::size_t size : {std::size_t{0}, std::size_t{7}, std::size_t{5000}, SIZE_MAX}) {
    dhyan_problem problem = *client.problem();
    problem.struct_size = size;
    char message[256];
    EXPECT_EQ(dhyan_attention(&problem, nullptr, message, sizeof message), DHYAN_INVALID_ARGUMENT);
    EXPECT_EQ(std::string(message), "problem: struct_size " + std::to_string(size) +
                                        ", it must be set by the struct's init function (" +
                                        std::to_string(sizeof(dhyan_problem)) + " here)");
    client[kKey].struct_size = size;
    EXPECT_EQ(client.run_once().message.rfind("key: struct_size ", 0), 0u);
    client[kKey].struct_size = sizeof(dhyan_tensor);
  }
  EXPECT_EQ(client.run_once().message, "");
}

TEST(StructSize, InitNeverWritesPastWhatTheClientDeclares) {
  for (std::size_t size = 0; size <= sizeof(dhyan_options); size += 4) {
    alignas(dhyan_options) unsigned char memory[sizeof(dhyan_options)];
    std::memset(memory, 0xAB, sizeof memory);
    dhyan_options_init_sized(reinterpret_cast<dhyan_options*>(memory), size);
    for (std::size_t i = size; i < sizeof memory; ++i) ASSERT_EQ(memory[i], 0xAB) << size << " bytes, byte " << i;
  }
}

TEST(Messages, AreCutToTheCallersBuffer) {
  Client client = small_forward();
  client.options.threads = -1;
  char message[12];
  std::memset(message, '?', sizeof message);
  EXPECT_EQ(dhyan_attention(client.problem(), nullptr, message, 8), DHYAN_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(message, sizeof message), std::string("threads\0????", 12));
  EXPECT_EQ(dhyan_attention(client.problem(), nullptr, nullptr, 0), DHYAN_INVALID_ARGUMENT);
  EXPECT_EQ(dhyan_attention(client.problem(), nullptr, nullptr, 100), DHYAN_INVALID_ARGUMENT);
  EXPECT_EQ(dhyan_attention(client.problem(), nullptr, message, 0), DHYAN_INVALID_ARGUMENT);
  EXPECT_EQ(dhyan_attention(nullptr, nullptr, nullptr, 0), DHYAN_INVALID_ARGUMENT);
}

TEST(Exceptions, OfAnyKindEndAtTheInterface) {
  char message[64];
  const auto status = [&](auto body) { return guarded(message, sizeof message, body); };
  EXPECT_EQ(status([] {}), DHYAN_OK);
  EXPECT_STREQ(message, "");
  EXPECT_EQ(status([] { throw core::Error(DHYAN_DEVICE_ERROR, "a launch failed"); }), DHYAN_DEVICE_ERROR);
  EXPECT_STREQ(message, "a launch failed");
  EXPECT_EQ(status([] { throw std::bad_alloc(); }), DHYAN_OUT_OF_MEMORY);
  EXPECT_STREQ(message, "out of host memory");
  EXPECT_EQ(status([] { throw std::logic_error("surprise"); }), DHYAN_INTERNAL);
  EXPECT_STREQ(message, "internal fault: surprise");
  EXPECT_EQ(status([] { throw 42; }), DHYAN_INTERNAL);
  EXPECT_STREQ(message, "internal fault");
  EXPECT_EQ(guarded(message, 8, [] { throw std::logic_error("surprise"); }), DHYAN_INTERNAL);
  EXPECT_STREQ(message, "interna");
  EXPECT_EQ(guarded(nullptr, 0, [] { throw std::logic_error("surprise"); }), DHYAN_INTERNAL);
}

// Runs one call in a process of its own, where the environment is read anew.
[[noreturn]] void exit_with_answer() {
  const Answer answer = small_forward().run_once();
  std::fprintf(stderr, "%s\n", answer.message.c_str());
  std::exit(answer.status);
}

TEST(EnvironmentDeathTest, AnUnknownTargetIsAnErrorOfEveryCall) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  setenv("DHYAN_CPU_TARGET", "fastest", 1);
  EXPECT_EXIT(exit_with_answer(), ::testing::ExitedWithCode(DHYAN_INVALID_ARGUMENT), "DHYAN_CPU_TARGET is \"fastest\"");
  unsetenv("DHYAN_CPU_TARGET");
}

TEST(Device, DescriptionIsCheckedAndDecidesThreads) {
  dhyan_device_description device;
  dhyan_device_description_init(&device);
  char message[256];
  ASSERT_EQ(dhyan_device_describe(DHYAN_CPU, 0, &device, message, sizeof message), DHYAN_OK) << message;
  EXPECT_GT(device.memory_bytes, std::int64_t{1} << 20);
  EXPECT_GE(device.threads, 1);
  EXPECT_EQ(dhyan_device_describe(DHYAN_CUDA, 99, &device, message, sizeof message), DHYAN_UNSUPPORTED);
  EXPECT_EQ(dhyan_device_describe(DHYAN_CPU, 1, &device, message, sizeof message), DHYAN_UNSUPPORTED);
  EXPECT_EQ(dhyan_device_describe(5, 0, &device, message, sizeof message), DHYAN_INVALID_ARGUMENT);

  Client client = small_forward();
  const auto answer = [&](auto spoil) {
    dhyan_device_description d = device;
    spoil(d);
    return client.make_plan(DHYAN_FORWARD, &d).message;
  };
  EXPECT_EQ(answer([](auto&) {}), "");
  EXPECT_EQ(answer([](auto& d) { d.memory_bytes = 0; }), "device: memory_bytes 0, it must be positive");
  EXPECT_EQ(answer([](auto& d) { d.threads = 0; }), "device: threads 0, it must be 1 to 1024");
  EXPECT_EQ(answer([](auto& d) { d.reserved = 1; }), "device: reserved 1, it must be 0");
  EXPECT_EQ(answer([](auto& d) { d.reserved_too = 1; }), "device: reserved_too 1, it must be 0");
  EXPECT_EQ(answer([](auto& d) { d.multiprocessors = -1; }), "device: multiprocessors -1, it must not be negative");
  EXPECT_EQ(answer([](auto& d) { d.compute_major = -8; }), "device: compute_major -8, it must not be negative");
  EXPECT_EQ(answer([](auto& d) { d.device_type = DHYAN_CUDA, d.device_index = 99; }), "device: cuda:99, " + cuda::refusal(99));

  device.threads = 3;
  dhyan_plan* plan = nullptr;
  ASSERT_EQ(dhyan_plan_create(client.problem(), DHYAN_FORWARD, &device, &plan, message, sizeof message), DHYAN_OK);
  char text[1024];
  dhyan_plan_describe(plan, text, sizeof text);
  EXPECT_NE(std::string(text).find("threads: 3\n"), std::string::npos) << text;
  dhyan_plan_destroy(plan);
}

TEST(Plan, NullIsHarmlessWhereItMeansNothing) {
  dhyan_plan_destroy(nullptr);
  EXPECT_EQ(dhyan_plan_scratch_bytes(nullptr), 0u);
  char text[4] = "abc";
  EXPECT_EQ(dhyan_plan_describe(nullptr, text, sizeof text), 0u);
  EXPECT_STREQ(text, "");
  Client client = small_forward();
  EXPECT_EQ(dhyan_plan_create(client.problem(), DHYAN_FORWARD, nullptr, nullptr, nullptr, 0), DHYAN_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace dhyan::testing

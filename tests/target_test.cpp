// SPDX-License-Identifier: Apache-2.0
// What a process may use of its processor. Each forced case runs in a process of its own, since the environment is read once.
#include "cpu/target.hpp"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cstdlib>
#include <iostream>
#include <string>

#include "core/error.hpp"
#include "cpu/choice.hpp"

namespace dhyan::cpu {
namespace {

class TargetDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

bool available(const std::string& name) {
  for (const TargetRow& row : target_rows())
    if (row.name == name) return row.available;
  ADD_FAILURE() << "no row for " << name;
  return false;
}

TEST(Target, RowsAgreeWithWhatKernelsAreGiven) {
  EXPECT_EQ(target_error(), "");
  EXPECT_EQ(available("sse4"), (highway_targets() & HWY_SSE4) != 0);
  EXPECT_EQ(available("avx2"), (highway_targets() & HWY_AVX2) != 0);
  EXPECT_EQ(available("avx3"), (highway_targets() & HWY_AVX3) != 0);
  EXPECT_EQ(available("avx512_bf16"), bf16_dot_engine() != nullptr);
  const bool amx = amx_engine() != nullptr;
  EXPECT_EQ(available("amx_bf16"), amx);
  for (const TargetRow& row : target_rows()) EXPECT_NE(row.available, !row.reason.empty()) << row.name << ": " << row.reason;
}

TEST(Target, OnlyBf16ProblemsGetBf16Engines) {
  EXPECT_EQ(choose_engine(DHYAN_F32).engine, &f32_engine());
  EXPECT_EQ(choose_engine(DHYAN_F16).engine, &f32_engine());
  const EngineChoice choice = choose_engine(DHYAN_BF16);
  EXPECT_FALSE(choice.reason.empty());
  if (amx_engine()) {
    EXPECT_EQ(choice.engine, amx_engine());
  } else if (!bf16_dot_engine()) {
    EXPECT_EQ(choice.engine, &f32_engine());
  }
}

TEST(Target, TheTablePrefersTheDotProductByVendor) {
  Processor zen4{Vendor::amd, 0x19, 0x11, "", 0, 0};
  EXPECT_TRUE(dot_preference(zen4).preferred);
  EXPECT_TRUE(dot_preference({Vendor::amd, 0x1A, 0x02, "", 0, 0}).preferred);
  EXPECT_FALSE(dot_preference({Vendor::intel, 6, 0x8F, "", 0, 0}).preferred);
  EXPECT_FALSE(dot_preference({Vendor::other, 7, 0, "", 0, 0}).preferred);
}

// Exits 0 when the forced level is all there is.
[[noreturn]] void exit_as_forced(std::int64_t bit) {
  const bool only = highway_targets() == bit && !bf16_dot_engine() && !amx_engine();
  std::exit(target_error().empty() && only && choose_engine(DHYAN_BF16).engine == &f32_engine() ? 0 : 1);
}

TEST_F(TargetDeathTest, AForcedLevelIsTheOnlyOne) {
  setenv("DHYAN_CPU_TARGET", "sse4", 1);
  EXPECT_EXIT(exit_as_forced(HWY_SSE4), testing::ExitedWithCode(0), "");
  if (hwy::SupportedTargets() & HWY_AVX2) {
    setenv("DHYAN_CPU_TARGET", "avx2", 1);
    EXPECT_EXIT(exit_as_forced(HWY_AVX2), testing::ExitedWithCode(0), "");
  }
  if (hwy::SupportedTargets() & HWY_AVX3) {
    setenv("DHYAN_CPU_TARGET", "avx3", 1);
    EXPECT_EXIT(exit_as_forced(HWY_AVX3), testing::ExitedWithCode(0), "");
  }
  unsetenv("DHYAN_CPU_TARGET");
}

// Prints the sentence with which no problem gets an engine.
[[noreturn]] void exit_with_the_error() {
  try {
    choose_engine(DHYAN_F32);
  } catch (const core::Error& error) {
    std::cerr << error.what();
    std::exit(error.status() == DHYAN_INVALID_ARGUMENT ? 7 : 1);
  }
  std::exit(0);
}

TEST_F(TargetDeathTest, AnUnknownValueStopsEveryPlan) {
  setenv("DHYAN_CPU_TARGET", "avx9", 1);
  EXPECT_EXIT(exit_with_the_error(), testing::ExitedWithCode(7), "DHYAN_CPU_TARGET is \"avx9\": it must be sse4, avx2 or avx3");
  unsetenv("DHYAN_CPU_TARGET");
  setenv("DHYAN_AMX", "off", 1);
  EXPECT_EXIT(exit_with_the_error(), testing::ExitedWithCode(7), "DHYAN_AMX is \"off\": it must be 0 or 1");
  unsetenv("DHYAN_AMX");
  for (const char* threads : {"abc", "0", "-3", "2 ", "1025"}) {
    setenv("DHYAN_THREADS", threads, 1);
    EXPECT_EXIT(exit_with_the_error(), testing::ExitedWithCode(7), "it must be a whole number from 1 to 1024");
  }
  unsetenv("DHYAN_THREADS");
}

TEST_F(TargetDeathTest, AmxCanBeTurnedOff) {
  setenv("DHYAN_AMX", "0", 1);
  EXPECT_EXIT(std::exit(amx_engine() == nullptr && !available("amx_bf16") ? 0 : 1), testing::ExitedWithCode(0), "");
  unsetenv("DHYAN_AMX");
}

}  // namespace
}  // namespace dhyan::cpu

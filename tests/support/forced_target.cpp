// SPDX-License-Identifier: Apache-2.0
// A run that forces an instruction set which this processor lacks counts no test: ctest reads the exit status as a skip.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "cpu/target.hpp"

namespace dhyan::testing {
namespace {

class ForcedTarget : public ::testing::Environment {
  void SetUp() override {
    if (!std::getenv("DHYAN_TEST_FORCED_TARGET") || cpu::target_error().empty()) return;
    std::fprintf(stderr, "skipped: %s\n", cpu::target_error().c_str());
    std::_Exit(77);
  }
};

[[maybe_unused]] const auto* const registered = ::testing::AddGlobalTestEnvironment(new ForcedTarget);

}  // namespace
}  // namespace dhyan::testing

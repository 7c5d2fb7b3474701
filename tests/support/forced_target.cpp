// SPDX-License-Identifier: Apache-2.0
// A run that forces an instruction set which this processor lacks is skipped as a whole.
#include <gtest/gtest.h>

#include <cstdlib>

#include "cpu/target.hpp"

namespace dhyan::testing {
namespace {

class ForcedTarget : public ::testing::Environment {
  void SetUp() override {
    if (std::getenv("DHYAN_TEST_FORCED_TARGET") && !cpu::target_error().empty()) GTEST_SKIP() << cpu::target_error();
  }
};

[[maybe_unused]] const auto* const registered = ::testing::AddGlobalTestEnvironment(new ForcedTarget);

}  // namespace
}  // namespace dhyan::testing

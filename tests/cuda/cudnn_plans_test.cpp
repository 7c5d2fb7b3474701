// SPDX-License-Identifier: Apache-2.0
// cuDNN has a plan for all that the rules let through, on devices that are not here: it is asked with their descriptions.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "cudnn/graph.hpp"
#include "cudnn/library.hpp"
#include "cudnn/rules.hpp"
#include "support/grid.hpp"

namespace dhyan::testing {
namespace {

// As cuDNN writes it; what differs between devices is what it asks for.
std::string device_json(std::int32_t capability, std::int32_t multiprocessors, std::int64_t shared_bytes) {
  return R"({"deviceVer":)" + std::to_string(capability * 10) + R"(,"multiProcessorCount":)" + std::to_string(multiprocessors) +
         R"(,"maxSharedMemoryPerBlockOptin":)" + std::to_string(shared_bytes) +
         R"(,"driverVer":13000,"cudaDeviceId":0,"deviceName":"a device","totalGlobalMem":50000000000,
            "maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,"warpSize":32,
            "maxSharedMemoryPerBlock":49152,"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,
            "maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,
            "smClockRateKHz":1980000,"memClockRateKHz":3201000,"l2CacheSize":62914560})";
}

struct Gpu {
  const char* name;
  cudnn::Facts facts;
  std::string json;
};

class CudnnPlans : public ::testing::TestWithParam<Gpu> {
 protected:
  // cuDNN wants a driver's library to be there, and asks it nothing: the toolkit's stub will do. No other test of the process
  // may meet it, so that this one runs in a process of its own.
  void SetUp() override {
    const char* stub = std::getenv("DHYAN_TEST_CUDA_STUB");
    if (stub == nullptr) GTEST_SKIP() << "DHYAN_TEST_CUDA_STUB names no stub of the driver's library";
    ASSERT_NE(dlopen(stub, RTLD_NOW | RTLD_GLOBAL), nullptr) << dlerror();
    if (!cudnn::missing().empty()) GTEST_SKIP() << cudnn::missing();
  }
};

TEST_P(CudnnPlans, ExistForAllThatIsNotRefused) {
  cudnn::Facts facts = GetParam().facts;
  facts.version = cudnn::version();
  int asked = 0;
  for (const auto& cases : {every_option(), every_head_dim(), decode()}) {
    for (const Case& c : cases) {
      if (c.dtype != DHYAN_BF16 || left_out(c)) continue;
      const Instance x(c, Random(describe(c)));
      for (const core::Problem& p : {x.problem, backward_problem(x, empty_gradients(x))}) {
        if (cudnn::refusal(p, facts)) continue;
        ++asked;
        EXPECT_EQ(cudnn::unsupported_on(GetParam().json, cudnn::describe(p, facts)), "")
            << describe(c) << (p.direction == DHYAN_FORWARD ? " forward" : " backward");
      }
    }
  }
  EXPECT_GT(asked, small_grid() ? 10 : 100);
}

// The question can be answered no: what a rule forbids has no plan.
TEST_P(CudnnPlans, DoNotExistForWhatIsRefused) {
  cudnn::Facts facts = GetParam().facts;
  facts.version = cudnn::version();
  Case c;
  c.dtype = DHYAN_BF16;
  c.head_dim = c.value_head_dim = 12;
  const Instance x(c, Random("refused"));
  EXPECT_NE(cudnn::unsupported_on(GetParam().json, cudnn::describe(x.problem, facts)), "");
}

INSTANTIATE_TEST_SUITE_P(Gpus, CudnnPlans,
                         ::testing::Values(Gpu{"A100", {8, 0, std::int64_t{40} << 30, 0}, device_json(80, 108, 166912)},
                                           Gpu{"L4", {8, 9, std::int64_t{24} << 30, 0}, device_json(89, 58, 101376)},
                                           Gpu{"H200", {9, 0, std::int64_t{140} << 30, 0}, device_json(90, 132, 232448)}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace dhyan::testing

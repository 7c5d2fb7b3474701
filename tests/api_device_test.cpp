// SPDX-License-Identifier: Apache-2.0
// Devices as the C interface sees them, on a machine without a GPU: every way to name one is refused, with the reason.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/choose.hpp"
#include "cuda/device.hpp"
#include "support/client.hpp"

namespace dhyan::testing {
namespace {

using namespace api;

constexpr std::int32_t kNoSuchDevice = 99;  // whatever this machine has

std::string reason() { return cuda::refusal(kNoSuchDevice); }

void put_on_device(dhyan_tensor& tensor) {
  tensor.device_type = DHYAN_CUDA;
  tensor.device_index = kNoSuchDevice;
}

TEST(Devices, ADeviceThatIsNotThereHasOneReasonEverywhere) {
  ASSERT_NE(reason(), "");
  if (cuda::devices().empty()) {
    EXPECT_EQ(reason(), cuda::unavailable());
  }
  dhyan_device_description device;
  dhyan_device_description_init(&device);
  char message[512];
  EXPECT_EQ(dhyan_device_describe(DHYAN_CUDA, kNoSuchDevice, &device, message, sizeof message), DHYAN_UNSUPPORTED);
  EXPECT_EQ(message, "device: cuda:99, " + reason());
  for (const dhyan_implementation i : {DHYAN_AUTO, DHYAN_REFERENCE, DHYAN_NAIVE, DHYAN_FUSED, DHYAN_CUDNN}) {
    EXPECT_EQ(dhyan_implementation_available(i, DHYAN_CUDA, kNoSuchDevice, message, sizeof message), DHYAN_UNSUPPORTED);
    EXPECT_EQ(message, "device: cuda:99, " + reason());
  }
}

TEST(Devices, ATensorOnOneIsRefusedByEveryCall) {
  Client client = small_forward();
  put_on_device(client[kQuery]);
  const std::string sentence = "query: device cuda:99, " + reason() + "; use tensors in host memory";
  for (const Answer& answer : {client.run_once(), client.make_plan()}) {
    EXPECT_EQ(answer.status, DHYAN_UNSUPPORTED);
    EXPECT_EQ(answer.message, sentence);
  }

  Client parts = small_forward();
  char message[512];
  dhyan_tensor& out = parts[kOut];
  dhyan_tensor& lse = parts[kLse];
  dhyan_tensor elsewhere = lse;
  put_on_device(elsewhere);
  EXPECT_EQ(dhyan_merge(&out, &lse, &out, &elsewhere, &out, &lse, nullptr, message, sizeof message), DHYAN_UNSUPPORTED);
  EXPECT_EQ(message, "lse_b: device cuda:99, " + reason() + "; use tensors in host memory");
  EXPECT_EQ(dhyan_convert(&lse, &elsewhere, nullptr, message, sizeof message), DHYAN_UNSUPPORTED);
  EXPECT_EQ(message, "destination: device cuda:99, " + reason() + "; use tensors in host memory");
}

TEST(Devices, StreamsBelongToGpus) {
  Client client = small_forward();
  char message[512];
  int stream = 0;
  EXPECT_EQ(dhyan_attention(client.problem(), &stream, message, sizeof message), DHYAN_INVALID_ARGUMENT);
  EXPECT_STREQ(message, "stream: not NULL, a CPU has no streams");
}

// A build that knows CUDA says of each implementation what it can do there; one that does not, lists none.
TEST(Devices, EveryImplementationHasARowForEveryKindOfDevice) {
  for (const dhyan_implementation i : {DHYAN_REFERENCE, DHYAN_NAIVE, DHYAN_FUSED, DHYAN_CUDNN}) {
    EXPECT_NE(find(i, DHYAN_CPU), nullptr);
    EXPECT_EQ(find(i, DHYAN_CUDA) != nullptr, cuda::built());
  }
}

TEST(Devices, InfoSaysWhatCannotRunHereAndWhy) {
  std::vector<char> text(dhyan_info(nullptr, 0) + 1);
  dhyan_info(text.data(), text.size());
  const auto info = nlohmann::json::parse(text.data());
  std::size_t gpus = 0;
  for (const auto& device : info["devices"]) gpus += device["type"] == "cuda";
  EXPECT_EQ(gpus, cuda::devices().size());
  for (const auto& row : info["implementations"]) {
    EXPECT_EQ(row["available"].get<bool>(), row["reason"].is_null()) << row;
    if (row["device"] == "cuda" && gpus == 0) {
      EXPECT_EQ(row["reason"], cuda::unavailable());
    }
  }
  bool runtime = false;
  for (const auto& row : info["libraries"]) {
    EXPECT_EQ(row["available"].get<bool>(), row["reason"].is_null()) << row;
    if (row["name"] == "CUDA runtime") runtime = row["available"].get<bool>();
  }
  EXPECT_EQ(runtime, cuda::built());
}

}  // namespace
}  // namespace dhyan::testing

// SPDX-License-Identifier: Apache-2.0
// dhyan.h on a GPU: what is refused and how, streams, scratch, graphs, threads.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "cuda/device.hpp"
#include "gpu/device.hpp"

namespace dhyan::testing::gpu {
namespace {

using namespace api;

struct Destroy {
  void operator()(dhyan_plan* plan) const { dhyan_plan_destroy(plan); }
};
using PlanPointer = std::unique_ptr<dhyan_plan, Destroy>;

PlanPointer plan_of(Client& client) {
  dhyan_plan* plan = nullptr;
  char message[512] = "";
  EXPECT_EQ(dhyan_plan_create(client.problem(), DHYAN_FORWARD, nullptr, &plan, message, sizeof message), DHYAN_OK) << message;
  return PlanPointer(plan);
}

std::string run(const dhyan_plan* plan, const dhyan_buffers& buffers, void* scratch, std::size_t bytes, void* stream) {
  char message[512] = "";
  dhyan_plan_run(plan, &buffers, scratch, bytes, stream, message, sizeof message);
  return message;
}

// The bytes of out, as a fresh one-shot call writes them.
std::vector<std::byte> one_shot(dhyan_dtype dtype = DHYAN_F32) {
  Client client = small_forward(dtype);
  const ClientOnDevice on_device(client);
  EXPECT_EQ(client.run_once().message, "");
  return on_device.read(kOut);
}

TEST(GpuApi, ReferenceRefusesDeviceViewsAndSaysWhatWorks) {
  Client client = small_forward();
  const ClientOnDevice on_device(client);
  client.options.implementation = DHYAN_REFERENCE;
  const Answer answer = client.run_once();
  EXPECT_EQ(answer.status, DHYAN_UNSUPPORTED);
  EXPECT_EQ(answer.message,
            "implementation: reference cannot run this problem: it computes in host memory; copy the tensors there and name "
            "device cpu; these can: naive, fused");
}

TEST(GpuApi, BackwardGivesTheGradientsOfTheCpu) {
  Client host = small_backward(DHYAN_F64);
  Client client = small_backward(DHYAN_F64);
  const ClientOnDevice on_device(client);
  host.options.implementation = DHYAN_REFERENCE;
  EXPECT_EQ(host.run_once(DHYAN_BACKWARD).message, "");
  EXPECT_EQ(client.run_once(DHYAN_BACKWARD).message, "");
  for (const Slot slot : {kGradQuery, kGradKey, kGradValue}) {
    const std::vector<std::byte> bytes = on_device.read(slot);
    const auto* got = reinterpret_cast<const double*>(bytes.data());
    const auto* want = static_cast<const double*>(host[slot].data);
    for (std::size_t i = 0; i < bytes.size() / sizeof(double); ++i) ASSERT_NEAR(got[i], want[i], 1e-12) << "slot " << slot;
  }
}

TEST(GpuApi, GradientsOfNoQueriesAreZero) {
  Client client = small_backward();
  for (const Slot slot : {kQuery, kOut, kGradOut, kGradQuery}) client[slot].shape[1] = 0;
  client[kLse].shape[2] = 0;
  const ClientOnDevice on_device(client);
  EXPECT_EQ(client.run_once(DHYAN_BACKWARD).message, "");
  for (const Slot slot : {kGradKey, kGradValue}) {
    const std::vector<std::byte> bytes = on_device.read(slot);
    EXPECT_FALSE(bytes.empty());
    for (const std::byte byte : bytes) ASSERT_EQ(byte, std::byte{0});
  }
}

TEST(GpuApi, TensorsOnTwoDevicesAreOneError) {
  Client client = small_forward();
  const ClientOnDevice on_device(client);
  client[kValue].device_type = DHYAN_CPU;
  const Answer answer = client.run_once();
  EXPECT_EQ(answer.status, DHYAN_INVALID_ARGUMENT);
  EXPECT_EQ(answer.message, "value: device cpu, the problem is on cuda:0; all its tensors must be on one device");
}

TEST(GpuApi, HostPointersAreCaughtInOneShotCallsAndOnRequest) {
  Client host = small_forward();
  Client client = small_forward();
  const ClientOnDevice on_device(client);
  void* there = client[kKey].data;
  client[kKey].data = host[kKey].data;
  const std::string sentence = "key: a pointer to host memory, the tensor is said to be on cuda:0";
  EXPECT_EQ(client.run_once().message, sentence);
  void* pinned = nullptr;
  expect_success(cudaMallocHost(&pinned, 4096), "cudaMallocHost");
  client[kKey].data = pinned;
  EXPECT_EQ(client.run_once().message, sentence);

  client.options.check_pointers = 1;
  client[kKey].data = there;
  const PlanPointer plan = plan_of(client);
  dhyan_buffers buffers = client.buffers();
  EXPECT_EQ(run(plan.get(), buffers, nullptr, 0, nullptr), "");
  buffers.key = pinned;
  EXPECT_EQ(run(plan.get(), buffers, nullptr, 0, nullptr), sentence);
  expect_success(cudaFreeHost(pinned), "cudaFreeHost");
}

TEST(GpuApi, ThreadsAreNoOptionOfAGpu) {
  Client client = small_forward();
  const ClientOnDevice on_device(client);
  client.options.threads = 2;
  EXPECT_EQ(client.run_once().message, "threads: 2, only a CPU has threads to set; leave it 0 on a CUDA device");
}

TEST(GpuApi, AMatrixThatDoesNotFitIsRefusedWithItsBytes) {
  Client client = small_forward();
  client.add(kQuery, DHYAN_F32, {1, 1, 1, 8});
  client.add(kKey, DHYAN_F32, {1, 1, 1, 8});
  client.add(kValue, DHYAN_F32, {1, 1, 1, 8});
  client.add(kOut, DHYAN_F32, {1, 1, 1, 8});
  client.add(kLse, DHYAN_F32, {1, 1, 1});
  const std::int64_t length = std::int64_t{1} << 20;
  for (const Slot slot : {kQuery, kKey, kValue, kOut}) {
    client[slot].shape[1] = length;
    client[slot].strides[0] = length * 8;
    client[slot].device_type = DHYAN_CUDA;
  }
  client[kLse].shape[2] = length;
  client[kLse].strides[1] = length;
  client[kLse].device_type = DHYAN_CUDA;
  client.options.implementation = DHYAN_NAIVE;
  const Answer answer = client.make_plan();
  EXPECT_EQ(answer.status, DHYAN_UNSUPPORTED);
  EXPECT_NE(answer.message.find("4398046511104 of them for its matrix of scores"), std::string::npos) << answer.message;
}

TEST(GpuApi, AutoSaysThatNaiveRunsF64) {
  Client client = small_forward(DHYAN_F64);
  const ClientOnDevice on_device(client);
  const PlanPointer plan = plan_of(client);
  EXPECT_EQ(dhyan_plan_implementation(plan.get()), DHYAN_NAIVE);
  char text[1024];
  dhyan_plan_describe(plan.get(), text, sizeof text);
  for (const char* part : {"implementation: naive (auto", "device: cuda:0 ", "cuBLASLt"}) {
    EXPECT_NE(std::string(text).find(part), std::string::npos) << text;
  }
}

TEST(GpuApi, AutoTakesFusedForSmallProblemsAndSaysWhereItWasMeasured) {
  for (const dhyan_dtype dtype : {DHYAN_F32, DHYAN_F16, DHYAN_BF16}) {
    Client client = small_forward(dtype);
    const ClientOnDevice on_device(client);
    const PlanPointer plan = plan_of(client);
    EXPECT_EQ(dhyan_plan_implementation(plan.get()), DHYAN_FUSED);
    char text[1024];
    dhyan_plan_describe(plan.get(), text, sizeof text);
    EXPECT_NE(std::string(text).find("as measured on"), std::string::npos) << text;
  }
}

TEST(GpuApi, ScratchOfTheCallersIsChecked) {
  Client client = small_forward();
  client.options.implementation = DHYAN_NAIVE;
  const ClientOnDevice on_device(client);
  const PlanPointer plan = plan_of(client);
  const std::size_t bytes = dhyan_plan_scratch_bytes(plan.get());
  const Memory scratch(bytes + 64);
  EXPECT_EQ(run(plan.get(), client.buffers(), scratch.data(), bytes, nullptr), "");
  EXPECT_EQ(run(plan.get(), client.buffers(), scratch.data() + 64, bytes, nullptr),
            "scratch: not aligned to 256 bytes, it must be");
  EXPECT_EQ(run(plan.get(), client.buffers(), scratch.data(), bytes - 1, nullptr),
            "scratch: " + std::to_string(bytes - 1) + " bytes, this plan needs " + std::to_string(bytes));
}

TEST(GpuApi, ACapturedRunReplaysOnNewInputs) {
  const std::vector<std::byte> want = one_shot();
  Client client = small_forward();
  client.options.implementation = DHYAN_NAIVE;
  const ClientOnDevice on_device(client);
  const PlanPointer plan = plan_of(client);
  const Memory scratch(dhyan_plan_scratch_bytes(plan.get()));
  cudaStream_t stream;
  expect_success(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  expect_success(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  EXPECT_EQ(run(plan.get(), client.buffers(), nullptr, 0, stream),
            "scratch: NULL while the stream is captured, a captured run needs a plan and " +
                std::to_string(dhyan_plan_scratch_bytes(plan.get())) + " bytes of the caller's");
  EXPECT_EQ(run(plan.get(), client.buffers(), scratch.data(), scratch.size(), stream), "");
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  expect_success(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  expect_success(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
  for (int replay = 0; replay < 3; ++replay) {
    expect_success(cudaMemset(client[kOut].data, 0xFF, want.size()), "cudaMemset");
    expect_success(cudaMemset(scratch.data(), 0xFF, scratch.size()), "cudaMemset");
    expect_success(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    expect_success(cudaGraphLaunch(executable, stream), "cudaGraphLaunch");
    EXPECT_EQ(on_device.read(kOut), want) << "replay " << replay;
  }
  // A value of 0 everywhere gives 0 everywhere.
  expect_success(cudaMemset(client[kValue].data, 0, sizeof(float) * 2 * 5 * 2 * 6), "cudaMemset");
  expect_success(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  expect_success(cudaGraphLaunch(executable, stream), "cudaGraphLaunch");
  EXPECT_EQ(on_device.read(kOut), std::vector<std::byte>(want.size()));
  expect_success(cudaGraphExecDestroy(executable), "cudaGraphExecDestroy");
  expect_success(cudaGraphDestroy(graph), "cudaGraphDestroy");
  expect_success(cudaStreamDestroy(stream), "cudaStreamDestroy");
}

TEST(GpuApi, ManyThreadsAndStreamsRunOnePlan) {
  const std::vector<std::byte> want = one_shot(DHYAN_BF16);
  Client shared = small_forward(DHYAN_BF16);
  const ClientOnDevice of_shared(shared);
  const PlanPointer plan = plan_of(shared);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      Client client = small_forward(DHYAN_BF16);
      const ClientOnDevice on_device(client);
      cudaStream_t stream;
      expect_success(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
      for (int r = 0; r < 50; ++r) {
        expect_success(cudaMemsetAsync(client[kOut].data, 0xFF, want.size(), stream), "cudaMemset");
        ASSERT_EQ(run(plan.get(), client.buffers(), nullptr, 0, stream), "");
        expect_success(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
        ASSERT_EQ(on_device.read(kOut), want);
      }
      expect_success(cudaStreamDestroy(stream), "cudaStreamDestroy");
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Other programs on the device, such as other shards of these tests, may take memory meanwhile: one try in many must see it.
TEST(GpuApi, TrimGivesThePoolBack) {
  Client client = small_forward();
  client.options.implementation = DHYAN_NAIVE;
  const ClientOnDevice on_device(client);
  bool given = false;
  for (int i = 0; i < 50 && !given; ++i) {
    EXPECT_EQ(client.run_once().message, "");
    expect_success(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    std::size_t before = 0;
    std::size_t after = 0;
    std::size_t total = 0;
    expect_success(cudaMemGetInfo(&before, &total), "cudaMemGetInfo");
    dhyan_trim();
    expect_success(cudaMemGetInfo(&after, &total), "cudaMemGetInfo");
    given = after > before;
  }
  EXPECT_TRUE(given);
  EXPECT_EQ(client.run_once().message, "");
}

TEST(GpuApi, AFailedLaunchIsReportedAndLeavesTheLibraryUsable) {
  Client client = small_forward();
  client.options.implementation = DHYAN_NAIVE;
  const ClientOnDevice on_device(client);
  const PlanPointer plan = plan_of(client);
  const Memory scratch(dhyan_plan_scratch_bytes(plan.get()));
  // A stream may not be joined by the legacy one while it is captured in global mode.
  cudaStream_t stream;
  expect_success(cudaStreamCreate(&stream), "cudaStreamCreate");
  expect_success(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  const std::string sentence = run(plan.get(), client.buffers(), scratch.data(), scratch.size(), nullptr);
  EXPECT_NE(sentence.find("launch of naive gather<f32>, grid ("), std::string::npos) << sentence;
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(stream, &graph);
  if (graph != nullptr) cudaGraphDestroy(graph);
  cudaGetLastError();
  expect_success(cudaStreamDestroy(stream), "cudaStreamDestroy");
  EXPECT_EQ(run(plan.get(), client.buffers(), scratch.data(), scratch.size(), nullptr), "");
  expect_success(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

TEST(GpuApi, InfoListsTheGpuAndItsLibraries) {
  std::vector<char> text(dhyan_info(nullptr, 0) + 1);
  dhyan_info(text.data(), text.size());
  const auto info = nlohmann::json::parse(text.data());
  bool found = false;
  for (const auto& device : info["devices"])
    found = found || (device["type"] == "cuda" && !device["name"].get<std::string>().empty());
  EXPECT_TRUE(found) << info["devices"];
  for (const auto& row : info["libraries"]) {
    if (row["name"] != "cuBLASLt") continue;
    EXPECT_TRUE(row["path"].is_string()) << row;
  }
  dhyan_device_description description;
  dhyan_device_description_init(&description);
  char message[256];
  EXPECT_EQ(dhyan_device_describe(DHYAN_CUDA, 0, &description, message, sizeof message), DHYAN_OK) << message;
  EXPECT_GT(description.memory_bytes, std::int64_t{1} << 30);
}

}  // namespace
}  // namespace dhyan::testing::gpu

// SPDX-License-Identifier: Apache-2.0
// With DHYAN_GPU_RECEIPT=FILE a whole run leaves a receipt: which sources, which device, what passed. Suites that another
// program wrote there, of the same sources, stay.
#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "cuda/device.hpp"
#include "source_hash.hpp"

namespace dhyan::testing::gpu {
namespace {

using Json = nlohmann::ordered_json;

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return text;
}

std::string library(const std::string& name) {
  for (const cuda::Library& found : cuda::libraries()) {
    if (found.name == name) return found.version;
  }
  return "";
}

Json suites_of(const ::testing::UnitTest& run) {
  Json suites = Json::array();
  for (int i = 0; i < run.total_test_suite_count(); ++i) {
    const ::testing::TestSuite& suite = *run.GetTestSuite(i);
    if (!suite.should_run()) continue;
    suites.push_back({{"name", suite.name()},
                      {"passed", suite.successful_test_count()},
                      {"failed", suite.failed_test_count()},
                      {"skipped", suite.skipped_test_count()}});
  }
  return suites;
}

// The suites of an older receipt of the same sources that this run does not have.
void keep_others(const std::string& path, Json& suites) {
  std::ifstream file(path);
  const Json older = Json::parse(file, nullptr, false);
  if (older.is_discarded() || older.value("source_hash", "") != DHYAN_GPU_SOURCE_HASH) return;
  std::set<std::string> names;
  for (const Json& suite : suites) names.insert(suite.at("name").get<std::string>());
  for (const Json& suite : older.at("suites")) {
    if (!names.contains(suite.at("name").get<std::string>())) suites.push_back(suite);
  }
}

class Receipt : public ::testing::EmptyTestEventListener {
 public:
  explicit Receipt(std::string path) : path_(std::move(path)) {}

  void OnTestProgramEnd(const ::testing::UnitTest& run) override {
    const char* grid = std::getenv("DHYAN_TEST_GRID");
    if (::testing::GTEST_FLAG(filter) != "*" || (grid && std::string(grid) == "small")) {
      std::printf("no receipt: only a whole run leaves one, without --gtest_filter and DHYAN_TEST_GRID=small\n");
      return;
    }
    if (cuda::devices().empty()) {
      std::printf("no receipt: %s\n", cuda::unavailable().c_str());
      return;
    }
    Json suites = suites_of(run);
    keep_others(path_, suites);
    int passed = 0, failed = 0, skipped = 0;
    for (const Json& suite : suites) {
      passed += suite.at("passed").get<int>();
      failed += suite.at("failed").get<int>();
      skipped += suite.at("skipped").get<int>();
    }
    const cuda::Device& device = cuda::devices().front();
    Json receipt = {{"source_hash", DHYAN_GPU_SOURCE_HASH},
                    {"date", today()},
                    {"device", device.name},
                    {"compute_capability", std::to_string(device.major) + "." + std::to_string(device.minor)},
                    {"driver", library("NVIDIA driver")},
                    {"cuda_runtime", library("CUDA runtime")},
                    {"cublaslt", library("cuBLASLt")},
                    {"cudnn", library("cuDNN")},
                    {"passed", passed},
                    {"failed", failed},
                    {"skipped", skipped},
                    {"suites", suites}};
    if (const char* shards = std::getenv("GTEST_TOTAL_SHARDS")) {
      receipt["shards"] = std::stoi(shards);
      receipt["shard"] = std::stoi(std::getenv("GTEST_SHARD_INDEX"));
    }
    std::ofstream file(path_);
    file << receipt.dump(2) << '\n';
    std::printf("%s: %s\n", file.flush() ? "receipt" : "NO RECEIPT COULD BE WRITTEN", path_.c_str());
  }

 private:
  std::string path_;
};

// GoogleTest's own main() has no place for it.
const bool registered = [] {
  if (const char* path = std::getenv("DHYAN_GPU_RECEIPT")) {
    ::testing::UnitTest::GetInstance()->listeners().Append(new Receipt(path));
  }
  return true;
}();

}  // namespace
}  // namespace dhyan::testing::gpu

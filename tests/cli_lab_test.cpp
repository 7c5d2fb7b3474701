// SPDX-License-Identifier: Apache-2.0
// `dhyan lab` as a black box: what it prints, what it leaves, how it ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "problem/random.hpp"
#include "report/terminal.hpp"
#include "support/files.hpp"
#include "support/program.hpp"

namespace dhyan::app {
namespace {

using ::dhyan::testing::npy_file;
using ::dhyan::testing::ProgramOptions;
using ::dhyan::testing::ProgramResult;
using ::dhyan::testing::read_file;
using ::dhyan::testing::run_program;
using ::dhyan::testing::TemporaryFolder;
using ::dhyan::testing::write_file;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;

using Words = std::vector<std::string>;

class LabCommand : public ::testing::Test {
 protected:
  ProgramResult lab(Words words, ProgramOptions options = {}) {
    words.insert(words.begin(), "lab");
    options.folder = folder_.path();
    return run_program(words, options);
  }
  json results(const std::string& name = "lab-report") { return json::parse(read_file(folder_.file(name + "/results.json"))); }
  std::string random_npy(const std::string& name, Shape shape) {
    Random random(1);
    write_file(folder_.file(name), npy_file(random_array(Element::f32, std::move(shape), random)));
    return folder_.file(name);
  }

  TemporaryFolder folder_;
};

TEST_F(LabCommand, LeavesAReportOfTheStepsAsked) {
  const ProgramResult result = lab({"--steps", "2-4,6,12", "--repeats", "2"});
  EXPECT_EQ(result.status, 0) << result.error;
  const json report = results();
  std::vector<int> numbers;
  for (const json& step : report.at("steps")) numbers.push_back(step.at("number"));
  EXPECT_THAT(numbers, ElementsAre(2, 3, 4, 6, 12));
  EXPECT_EQ(report.at("complete"), true);
  EXPECT_THAT(read_file(folder_.file("lab-report/report.html")), HasSubstr("Fused vs naive"));
  EXPECT_THAT(read_file(folder_.file("lab-report/tables/04_fused.csv")), HasSubstr("max_difference"));
  EXPECT_THAT(result.out, AllOf(HasSubstr("Naive attention"), HasSubstr("lab-report/report.html"), Not(HasSubstr("\033"))));
}

TEST_F(LabCommand, SaysWhyAStepCannotRunAndGoesOn) {
  const ProgramResult result = lab({"--steps", "5,8,10", "--out", "here"});
  EXPECT_EQ(result.status, 0) << result.error;
  const json report = results("here");
  EXPECT_EQ(report.at("steps")[0].at("outcome"), "not_available");
  EXPECT_THAT(report.at("steps")[0].at("reason").at("en"), HasSubstr("GPU"));
  EXPECT_EQ(report.at("steps")[1].at("outcome"), "done");
  EXPECT_THAT(report.at("steps")[2].at("reason").at("en"), HasSubstr("requires"));
  EXPECT_THAT(result.out, HasSubstr("NVIDIA"));
}

TEST_F(LabCommand, TimesAsManyCallsAsAskedAndSweepsAsFarAsAsked) {
  ASSERT_EQ(lab({"--steps", "7", "--repeats", "3", "--max-seq", "100", "--quick"}).status, 0);
  std::vector<std::string> settings;
  const json report = results();
  for (const json& timing : report.at("steps")[0].at("timings")) {
    EXPECT_EQ(timing.at("samples_ms").size(), 3u);
    EXPECT_LE(timing.at("p10_ms"), timing.at("median_ms"));
    EXPECT_LE(timing.at("median_ms"), timing.at("p90_ms"));
    settings.push_back(timing.at("setting"));
  }
  EXPECT_THAT(settings, IsSupersetOf({"T=64", "T=100", "B=1"}));
  EXPECT_THAT(settings, Not(Contains("T=128")));
}

TEST_F(LabCommand, RunsOnTensorsOfTheUsersOwn) {
  const std::string query = random_npy("q.npy", {1, 70, 4, 16}), key = random_npy("k.npy", {1, 90, 2, 16});
  const ProgramResult result = lab({"--query", query, "--key", key, "--value", key, "--repeats", "1", "--steps", "2-4,6-9"});
  EXPECT_EQ(result.status, 0) << result.error;
  const json report = results();
  EXPECT_THAT(report.at("steps")[0].dump(), HasSubstr("(1, 70, 4, 16)"));
  EXPECT_THAT(report.at("steps")[5].at("outcome"), "skipped");
  EXPECT_THAT(report.at("settings").dump(), HasSubstr("q.npy"));
}

TEST_F(LabCommand, LeavesAPartialReportWhenInterrupted) {
  ProgramOptions options;
  options.interrupt_after = "Naive attention";
  const ProgramResult result = lab({"--steps", "3,7"}, options);
  EXPECT_EQ(result.status, 130);
  EXPECT_THAT(result.error, HasSubstr("stopping"));
  const json report = results();
  EXPECT_EQ(report.at("complete"), false);
  EXPECT_EQ(report.at("steps").back().at("outcome"), "interrupted");
  EXPECT_THAT(read_file(folder_.file("lab-report/report.html")), HasSubstr("interrupted"));
}

TEST_F(LabCommand, KeepsAWholeReportFromAnInterruptedOne) {
  ASSERT_EQ(lab({"--steps", "8"}).status, 0);
  const std::string before = read_file(folder_.file("lab-report/results.json"));
  ProgramOptions options;
  options.interrupt_after = "Naive attention";
  const ProgramResult result = lab({"--steps", "3,7"}, options);
  EXPECT_EQ(result.status, 130);
  EXPECT_EQ(read_file(folder_.file("lab-report/results.json")), before);
  EXPECT_EQ(results("lab-report/interrupted").at("complete"), false);
  EXPECT_THAT(result.out, HasSubstr("lab-report/interrupted/report.html"));
}

TEST_F(LabCommand, LosesNoReportWhenItsOutputCannotBeWritten) {
  ProgramOptions full;
  full.out_path = "/dev/full";
  const ProgramResult result = lab({"--steps", "0-3", "--repeats", "1"}, full);
  EXPECT_EQ(result.status, 3);
  EXPECT_THAT(result.error, HasSubstr("standard output cannot be written"));
  EXPECT_EQ(results().at("complete"), true);
}

TEST_F(LabCommand, ShowsNothingOfANameThatATerminalObeys) {
  const std::string name = "\033[31mred";
  const ProgramResult result = lab({"--steps", "0", "--out", name}), refused = lab({"--" + name + "\n"});
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.out, AllOf(HasSubstr("[31mred/report.html"), Not(HasSubstr("\033"))));
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.error, AllOf(HasSubstr("[31mred"), Not(HasSubstr("\033"))));
  EXPECT_EQ(std::ranges::count(refused.error, '\n'), 1);
}

TEST_F(LabCommand, NeverShowsAFailedBoundAsHeld) {
  Random random(1);
  Array array = random_array(Element::f32, {1, 8, 2, 16}, random);
  for (float& value : array.as<float>()) value *= 1e30F;  // scores overflow
  write_file(folder_.file("far.npy"), npy_file(array));
  const ProgramResult result = lab({"--steps", "4", "--query", "far.npy", "--key", "far.npy", "--value", "far.npy"});
  EXPECT_EQ(result.status, 1);
  const json report = results();
  for (const json& check : report.at("steps")[0].at("checks")) {
    if (check.at("verdict") != "failed") continue;
    EXPECT_EQ(check.at("value").at("text"), "nan") << check;
  }
}

TEST_F(LabCommand, FitsEightyColumnsWhenPiped) {
  const ProgramResult piped = lab({"--quick", "--repeats", "1", "--max-seq", "64"});
  ASSERT_EQ(piped.status, 0);
  std::size_t from = 0;
  for (std::size_t end = piped.out.find('\n'); end != std::string::npos; from = end + 1, end = piped.out.find('\n', from)) {
    EXPECT_LE(display_width(piped.out.substr(from, end - from)), 80u) << piped.out.substr(from, end - from);
  }
}

TEST_F(LabCommand, RefusesWhatItCannotDoInOneSentence) {
  write_file(folder_.file("file"), "x");
  std::filesystem::create_symlink("nowhere", folder_.file("dangling"));
  const std::string query = random_npy("q.npy", {2, 8, 4, 16}), flat = random_npy("flat.npy", {8, 16});
  const std::string other = random_npy("other.npy", {3, 8, 4, 16});
  struct Refusal {
    Words words;
    std::vector<std::string> parts;
  };
  const Refusal refusals[] = {{{"--steps", "13"}, {"--steps", "\"13\"", "0 to 12"}},
                              {{"--steps", "-1"}, {"--steps"}},
                              {{"--steps", "1,,2"}, {"--steps", "\"\""}},
                              {{"--steps", ""}, {"--steps", "empty"}},
                              {{"--repeats", ""}, {"--repeats", "empty"}},
                              {{"--query", ""}, {"--query", "empty"}},
                              {{"--steps", "6-3"}, {"--steps", "6-3"}},
                              {{"--steps", "7a"}, {"--steps", "\"7a\""}},
                              {{"--device", "gpu"}, {"--device", "\"gpu\"", "auto, cpu, cuda"}},
                              {{"--device", "cuda"}, {"--device", "cuda", "found on this machine: cpu"}},
                              {{"--device", "cuda:7"}, {"--device", "cuda:7", "found on this machine: cpu"}},
                              {{"--device", "cuda:"}, {"--device", "\"cuda:\""}},
                              {{"--repeats", "0"}, {"--repeats", "\"0\""}},
                              {{"--repeats", "10001"}, {"--repeats", "10000"}},
                              {{"--repeats", ""}, {"--repeats", "empty"}},
                              {{"--steps", ""}, {"--steps", "empty"}},
                              {{"--query", "", "--key", "", "--value", ""}, {"empty"}},
                              {{"--out", "dangling"}, {"--out", "dangling", "link"}},
                              {{"--max-seq", "63"}, {"--max-seq", "64", "16384"}},
                              {{"--max-seq", "16385"}, {"--max-seq"}},
                              {{"--query", query}, {"--key", "go together"}},
                              {{"--query", flat, "--key", flat, "--value", flat}, {"--query", "4 dimensions"}},
                              {{"--query", query, "--key", other, "--value", other}, {"key"}},
                              {{"--query", "absent.npy", "--key", query, "--value", query}, {"--query", "absent.npy"}},
                              {{"--out", "file"}, {"--out", "file"}},
                              {{"--out", ""}, {"--out"}},
                              {{"--what"}, {"--what"}}};
  for (const Refusal& refusal : refusals) {
    SCOPED_TRACE(::testing::PrintToString(refusal.words));
    const ProgramResult result = lab(refusal.words);
    EXPECT_EQ(result.status, 2);
    EXPECT_THAT(result.out, IsEmpty());
    for (const std::string& part : refusal.parts) EXPECT_THAT(result.error, HasSubstr(part));
    EXPECT_EQ(std::count(result.error.begin(), result.error.end(), '\n'), 1) << result.error;
  }
  EXPECT_THAT(folder_.names(), Not(Contains("lab-report")));
}

}  // namespace
}  // namespace dhyan::app

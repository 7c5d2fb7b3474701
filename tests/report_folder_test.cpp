// SPDX-License-Identifier: Apache-2.0
// The report's folder: all of a report or nothing of it, and never a whole one lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <map>

#include "failure.hpp"
#include "report/csv.hpp"
#include "report/folder.hpp"
#include "report/json.hpp"
#include "support/program.hpp"
#include "support/sample_document.hpp"

namespace dhyan::report {
namespace {

namespace fs = std::filesystem;
using ::dhyan::testing::read_file;
using ::dhyan::testing::sample_document;
using ::dhyan::testing::TemporaryFolder;
using ::dhyan::testing::write_file;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Every file below a folder and what is in it.
std::map<std::string, std::string> contents(const std::string& folder) {
  std::map<std::string, std::string> contents;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) contents[fs::relative(entry.path(), folder).string()] = read_file(entry.path().string());
  }
  return contents;
}

std::vector<std::string> names(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& [name, content] : contents(folder)) names.push_back(name);
  return names;
}

// The sentence and the exit code with which something is refused.
template <class Act>
std::pair<std::string, int> refusal(Act act) {
  try {
    act();
  } catch (const app::Failure& failure) {
    return {failure.what(), failure.code()};
  }
  return {"", 0};
}

Document interrupted() {
  Document document = sample_document();
  document.complete = false;
  document.steps.resize(1);
  return document;
}

TEST(ReportFolder, HoldsPageResultsAndTables) {
  const TemporaryFolder base;
  const std::string path = base.file("a/b");
  const Document document = sample_document();
  EXPECT_EQ(Folder(path + "/", "--out").write(document), path);
  EXPECT_THAT(names(path), ElementsAre("report.html", "results.json", "tables/environment.csv", "tables/sweep.csv"));
  EXPECT_EQ(load_results(path + "/results.json", "FILE"), document);
  EXPECT_EQ(read_file(path + "/tables/sweep.csv"), csv(std::get<Table>(document.steps[3].blocks[1])));
  EXPECT_THAT(read_file(path + "/report.html"), StartsWith("<!doctype html>"));
}

TEST(ReportFolder, IsReplacedByTheNextWholeRun) {
  const TemporaryFolder base;
  const Folder folder(base.path(), "--out");
  folder.write(sample_document());
  write_file(base.file("tables/own.csv"), "a user's");
  Document next = sample_document();
  next.steps.resize(3);  // without the sweep
  next.seconds = 99;
  EXPECT_EQ(folder.write(next), base.path());
  EXPECT_THAT(names(base.path()), ElementsAre("report.html", "results.json", "tables/environment.csv", "tables/own.csv"));
  EXPECT_EQ(load_results(base.file("results.json"), "FILE"), next);
}

TEST(ReportFolder, KeepsAWholeReportWhenTheNextRunIsInterrupted) {
  const TemporaryFolder base;
  const Folder folder(base.path(), "--out");
  folder.write(sample_document());
  const auto before = contents(base.path());
  EXPECT_EQ(folder.write(interrupted()), base.file("interrupted"));
  EXPECT_EQ(load_results(base.file("interrupted/results.json"), "FILE"), interrupted());
  fs::remove_all(base.file("interrupted"));
  EXPECT_EQ(contents(base.path()), before);
}

TEST(ReportFolder, TakesAnInterruptedRunWhereNoWholeOneIs) {
  const TemporaryFolder base;
  const Folder folder(base.path(), "--out");
  EXPECT_EQ(folder.write(interrupted()), base.path());
  EXPECT_EQ(folder.write(interrupted()), base.path());
  EXPECT_EQ(load_results(base.file("results.json"), "FILE"), interrupted());
  EXPECT_EQ(folder.write(sample_document()), base.path());
  EXPECT_EQ(load_results(base.file("results.json"), "FILE"), sample_document());
}

TEST(ReportFolder, TakesResultsItCannotReadForAWholeReport) {
  const TemporaryFolder base;
  const std::string other = R"({"schema_version": 2, "complete": false})";
  write_file(base.file("results.json"), other);
  const Folder folder(base.path(), "--out");
  EXPECT_EQ(folder.write(interrupted()), base.file("interrupted"));
  EXPECT_EQ(read_file(base.file("results.json")), other);
  EXPECT_EQ(folder.write(sample_document()), base.path());
}

TEST(ReportFolder, NeverReplacesAWholeReportInTheFolderOfInterruptedOnes) {
  const TemporaryFolder base;
  Folder(base.path(), "--out").write(sample_document());
  Folder(base.file("interrupted"), "--out").write(sample_document());
  EXPECT_EQ(Folder(base.path(), "--out").write(interrupted()), base.file("interrupted/interrupted"));
  EXPECT_EQ(load_results(base.file("interrupted/results.json"), "FILE"), sample_document());
}

// No file of this process can be larger, as on a disk that is nearly full.
class SmallDisk {
 public:
  explicit SmallDisk(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~SmallDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST(ReportFolder, StaysAsItWasWhenTheDiskIsFull) {
  const TemporaryFolder base;
  const Folder folder(base.path(), "--out");
  folder.write(sample_document());
  const auto before = contents(base.path());
  Document next = sample_document();
  next.seconds = 99;
  std::pair<std::string, int> answer;
  {
    const SmallDisk disk(5000);
    answer = refusal([&] { folder.write(next); });
  }
  EXPECT_THAT(answer.first, AllOf(StartsWith("--out: "), HasSubstr(" cannot be written: File too large")));
  EXPECT_EQ(answer.second, app::exit_runtime);
  EXPECT_EQ(contents(base.path()), before);
  EXPECT_EQ(folder.write(next), base.path());
}

TEST(ReportFolder, SaysAtOnceThatTheDiskIsFull) {
  const TemporaryFolder base;
  std::pair<std::string, int> answer;
  {
    const SmallDisk disk(100);
    answer = refusal([&] { Folder(base.path(), "--out"); });
  }
  EXPECT_THAT(answer.first, StartsWith("--out: "));
  EXPECT_EQ(answer.second, app::exit_runtime);
  EXPECT_THAT(names(base.path()), ElementsAre());
}

TEST(ReportFolder, SaysBeforeTheRunThatAReportDoesNotFit) {
  const TemporaryFolder base;
  const SmallDisk disk(300'000);
  EXPECT_EQ(refusal([&] { Folder(base.path(), "--out"); }).second, app::exit_runtime);
}

TEST(ReportFolder, IsNotHinderedByTheFileOfAKilledProcessOfTheSameNumber) {
  const TemporaryFolder base;
  const std::string stale = base.file("results.json." + std::to_string(getpid()) + ".part");
  write_file(stale, "half");
  const Folder folder(base.path(), "--out");
  folder.write(sample_document());
  EXPECT_EQ(load_results(base.file("results.json"), ""), sample_document());
  EXPECT_EQ(read_file(stale), "half");
}

TEST(ReportFolder, LeavesSignalsAsTheyWere) {
  const TemporaryFolder base;
  void (*const before)(int) = std::signal(SIGTERM, SIG_DFL);
  Folder(base.path(), "--out").write(sample_document());
  EXPECT_EQ(std::signal(SIGTERM, before), SIG_DFL);
}

TEST(ReportFolder, RefusesWhatCannotBeOne) {
  const TemporaryFolder base;
  write_file(base.file("file"), "");
  mkfifo(base.file("pipe").c_str(), 0600);
  fs::create_directories(base.file("taken/results.json"));
  fs::create_directories(base.file("page/report.html"));
  fs::create_directories(base.file("flat"));
  write_file(base.file("flat/tables"), "");
  const auto answer = [](const std::string& path) { return refusal([&] { Folder(path, "--out"); }); };
  EXPECT_THAT(answer("").first, "--out: the name of the folder is empty");
  EXPECT_THAT(answer(base.file("file")).first, AllOf(StartsWith("--out: "), HasSubstr("/file\" is not a folder")));
  EXPECT_THAT(answer(base.file("file/below")).first,
              AllOf(StartsWith("--out: "), HasSubstr("cannot be made: Not a directory")));
  EXPECT_THAT(answer(base.file(std::string(300, 'x'))).first, HasSubstr("cannot be made: File name too long"));
  EXPECT_THAT(answer(base.file("pipe")).first, HasSubstr("/pipe\" is not a folder"));
  EXPECT_THAT(answer(base.file("flat")).first, HasSubstr("/flat/tables\" is not a folder"));
  EXPECT_THAT(answer(base.file("taken")).first, AllOf(StartsWith("--out: "), HasSubstr("results.json is not a regular file")));
  for (const char* name : {"", "file", "file/below", "pipe", "flat", "taken", "page"}) {
    EXPECT_EQ(answer(*name ? base.file(name) : "").second, app::exit_bad_input) << name;
  }
  EXPECT_EQ(read_file(base.file("file")), "");
}

TEST(ReportFolder, RefusesWhereItMayNotWrite) {
  const TemporaryFolder base;
  const std::string path = base.file("closed");
  fs::create_directories(path);
  chmod(base.path().c_str(), 0755);
  chmod(path.c_str(), 0555);
  const uid_t user = geteuid();
  if (user == 0) {  // who may write anywhere
    ASSERT_EQ(seteuid(65534), 0);
  }
  const auto closed = refusal([&] { Folder(path, "--out"); });
  const auto below = refusal([&] { Folder(path + "/new", "--out"); });
  if (user == 0) {
    ASSERT_EQ(seteuid(0), 0);
  }
  EXPECT_THAT(closed.first, AllOf(StartsWith("--out: "), HasSubstr("Permission denied")));
  EXPECT_THAT(below.first, AllOf(StartsWith("--out: "), HasSubstr("cannot be made: Permission denied")));
  EXPECT_EQ(closed.second, app::exit_bad_input);
  EXPECT_EQ(below.second, app::exit_bad_input);
}

TEST(ReportFolder, WritesNothingThatBreaksTheRules) {
  const TemporaryFolder base;
  const Folder folder(base.path(), "--out");
  Document document = sample_document();
  std::get<Table>(document.steps[0].blocks[2]).key = "../../outside";
  EXPECT_THROW(folder.write(document), std::logic_error);
  EXPECT_THAT(names(base.path()), ElementsAre());
}

}  // namespace
}  // namespace dhyan::report

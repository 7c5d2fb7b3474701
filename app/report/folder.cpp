// SPDX-License-Identifier: Apache-2.0
#include "report/folder.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <span>

#include "failure.hpp"
#include "io/save.hpp"
#include "report/csv.hpp"
#include "report/html.hpp"
#include "report/json.hpp"

namespace dhyan::report {
namespace {

using app::fail;
using app::OutputFile;
using app::refuse;
using app::shown;
namespace fs = std::filesystem;

constexpr const char* results_name = "results.json";
constexpr const char* page_name = "report.html";

// While it lives, no signal that asks the program to end does so: files take their places together or not at all.
class Undisturbed {
 public:
  Undisturbed() {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    for (std::size_t i = 0; i < std::size(signals); ++i) sigaction(signals[i], &ignore, &before_[i]);
  }
  ~Undisturbed() {
    for (std::size_t i = 0; i < std::size(signals); ++i) sigaction(signals[i], &before_[i], nullptr);
  }
  Undisturbed(const Undisturbed&) = delete;
  Undisturbed& operator=(const Undisturbed&) = delete;

 private:
  static constexpr int signals[] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction before_[std::size(signals)]{};
};

bool is_machines_fault(int error) { return error == ENOSPC || error == EDQUOT || error == EIO || error == EMFILE; }

void make_folder(const std::string& path, const std::string& argument) {
  std::error_code error, ignored;
  if (fs::is_symlink(path, ignored) && fs::status(path, ignored).type() == fs::file_type::not_found)
    refuse("{}: {} is a link to what is not there", argument, shown(path));
  fs::create_directories(path, error);
  if (const fs::file_status status = fs::status(path, ignored); fs::exists(status) && !fs::is_directory(status))
    refuse("{}: {} is not a folder", argument, shown(path));
  if (error && is_machines_fault(error.value())) fail("{}: {} cannot be made: {}", argument, shown(path), error.message());
  if (error) refuse("{}: {} cannot be made: {}", argument, shown(path), error.message());
  if (faccessat(AT_FDCWD, path.c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
    refuse("{}: the folder {} cannot be written to: {}", argument, shown(path), std::strerror(errno));
  }
}

// What an earlier run left in a folder.
struct Earlier {
  bool any = false;                  // a results.json, whatever is in it
  std::optional<Document> document;  // where it can be read
};

Earlier earlier_in(const std::string& path) {
  const std::string file = path + "/" + results_name;
  std::error_code error;
  if (!fs::exists(fs::symlink_status(file, error))) return {};
  try {
    return {true, load_results(file, "")};
  } catch (const app::Failure&) {
    return {true, std::nullopt};  // of another version of dhyan, or spoiled: nothing is known of it
  }
}

std::set<std::string> table_keys(const Document& document) {
  std::set<std::string> keys;
  for (const Step& step : document.steps) {
    for (const Block& block : step.blocks) {
      if (const auto* table = std::get_if<Table>(&block)) keys.insert(table->key);
    }
  }
  return keys;
}

std::string table_path(const std::string& folder, const std::string& key) { return folder + "/tables/" + key + ".csv"; }

void write_all(const std::string& folder, const Document& document) {
  std::vector<OutputFile> files;
  const auto add = [&](const std::string& path, const std::string& content) {
    files.emplace_back(path);
    files.back().write(content);
    files.back().sync();
  };
  for (const Step& step : document.steps) {
    for (const Block& block : step.blocks) {
      if (const auto* table = std::get_if<Table>(&block)) add(table_path(folder, table->key), csv(*table));
    }
  }
  add(folder + "/" + page_name, html_page(std::span(&document, 1), std::span(&document.device_name, 1)));
  add(folder + "/" + results_name, results_json(document));
  const Undisturbed undisturbed;
  for (OutputFile& file : files) file.commit();
}

}  // namespace

Folder::Folder(std::string path, std::string argument) : path_(std::move(path)), argument_(std::move(argument)) {
  if (path_.empty()) refuse("{}: the name of the folder is empty", argument_);
  while (path_.size() > 1 && path_.ends_with('/')) path_.pop_back();
  make_folder(path_, argument_);
  make_folder(path_ + "/tables", argument_);
  try {
    constexpr std::size_t usual_size = 1 << 20;  // of a report; too little room is said before the run, not after it
    OutputFile results(path_ + "/" + results_name), page(path_ + "/" + page_name);  // never committed
    page.write(std::string(usual_size, ' '));
    page.sync();
  } catch (const app::Failure& failure) {
    throw app::Failure(failure.code(), argument_ + ": " + failure.what());
  }
}

std::string Folder::write(const Document& document) const {
  if (const std::string rule = broken_rule(document); !rule.empty()) throw std::logic_error("the report is wrong: " + rule);
  std::string folder = path_;
  Earlier earlier = earlier_in(folder);
  while (!document.complete && earlier.any && !(earlier.document && !earlier.document->complete)) {
    folder += "/interrupted";
    earlier = earlier_in(folder);
  }
  make_folder(folder, argument_);
  make_folder(folder + "/tables", argument_);
  try {
    write_all(folder, document);
  } catch (const app::Failure& failure) {
    throw app::Failure(failure.code(), argument_ + ": " + failure.what());
  }
  if (earlier.document) {
    const std::set<std::string> keys = table_keys(document);
    for (const std::string& key : table_keys(*earlier.document)) {
      std::error_code ignored;  // a table too many does no harm
      if (!keys.contains(key)) fs::remove(table_path(folder, key), ignored);
    }
  }
  return folder;
}

}  // namespace dhyan::report

// SPDX-License-Identifier: Apache-2.0
// Runs the dhyan command as its users do.
#pragma once

#include <string>
#include <vector>

namespace dhyan::testing {

struct ProgramResult {
  int status = -1;  // exit code; 128 + signal when killed by one
  std::string out, error;
};

struct ProgramOptions {
  std::vector<std::string> environment = {};  // NAME=value, added to this process's
  std::string folder = {};                    // working folder; empty: this process's
  bool terminal = false;                      // standard output and standard error are one terminal; all of it is in `out`
  std::string out_path = {};                  // standard output goes to this file instead
  // Sends SIGINT once a file whose name holds this appears in `folder`.
  std::string interrupt_when = {};
  // Sends SIGINT once standard output holds this.
  std::string interrupt_after = {};
};

ProgramResult run_program(const std::vector<std::string>& arguments, const ProgramOptions& options = {});

// A fresh folder that disappears with this.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  std::vector<std::string> names() const;  // sorted

 private:
  std::string path_;
};

void write_file(const std::string& path, const std::string& content);
std::string read_file(const std::string& path);

}  // namespace dhyan::testing

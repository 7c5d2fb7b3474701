// SPDX-License-Identifier: Apache-2.0
#include "support/program.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace dhyan::testing {
namespace {

namespace fs = std::filesystem;

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& t : texts) result.push_back(t.data());
  result.push_back(nullptr);
  return result;
}

// These tests are about the CPU, also on a machine with a GPU, which `auto` would take.
std::vector<std::string> environment_with(std::vector<std::string> more) {
  more.emplace_back("CUDA_VISIBLE_DEVICES=");
  std::vector<std::string> all = more;
  for (char** e = environ; *e; ++e) {
    const std::string entry = *e;
    const std::string name = entry.substr(0, entry.find('=') + 1);
    if (std::none_of(more.begin(), more.end(), [&](const std::string& m) { return m.starts_with(name); })) all.push_back(entry);
  }
  return all;
}

bool exists_like(const std::string& folder, const std::string& part) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename().string().find(part) != std::string::npos) return true;
  }
  return false;
}

struct Pipe {
  int read = -1, write = -1;
};

Pipe make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
  return {ends[0], ends[1]};
}

Pipe make_terminal() {
  const int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) throw std::runtime_error("no terminal can be had");
  return {master, open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC)};
}

// Reads what there is; false at the end.
bool drain(int file, std::string& into) {
  char buffer[65536];
  const ssize_t count = read(file, buffer, sizeof buffer);
  if (count > 0) into.append(buffer, static_cast<std::size_t>(count));
  return count > 0;
}

}  // namespace

ProgramResult run_program(const std::vector<std::string>& arguments, const ProgramOptions& options) {
  std::vector<std::string> words = {DHYAN_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> environment = environment_with(options.environment);
  const std::vector<char*> argv = pointers(words), envp = pointers(environment);
  const Pipe out = options.terminal ? make_terminal() : make_pipe(), error = make_pipe();
  const int to_file =
      options.out_path.empty() ? -1 : open(options.out_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

  const pid_t child = fork();
  if (child == 0) {
    if (!options.folder.empty() && chdir(options.folder.c_str()) != 0) _exit(126);
    dup2(to_file >= 0 ? to_file : out.write, STDOUT_FILENO);
    dup2(options.terminal ? out.write : error.write, STDERR_FILENO);
    execve(argv[0], argv.data(), envp.data());
    _exit(127);
  }
  close(out.write);
  close(error.write);
  if (to_file >= 0) close(to_file);

  ProgramResult result;
  bool out_open = true, error_open = true, interrupted = options.interrupt_when.empty() && options.interrupt_after.empty();
  while (out_open || error_open) {
    pollfd files[] = {{out_open ? out.read : -1, POLLIN, 0}, {error_open ? error.read : -1, POLLIN, 0}};
    poll(files, 2, 5);
    if (files[0].revents) out_open = drain(out.read, result.out);
    if (files[1].revents) error_open = drain(error.read, result.error);
    const bool due = !options.interrupt_when.empty() ? exists_like(options.folder, options.interrupt_when)
                                                     : result.out.find(options.interrupt_after) != std::string::npos;
    if (!interrupted && due) {
      kill(child, SIGINT);
      interrupted = true;
    }
  }
  close(out.read);
  close(error.read);
  int status = 0;
  waitpid(child, &status, 0);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (fs::temp_directory_path() / "dhyan_test_XXXXXX").string();
  if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder can be had");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::vector<std::string> TemporaryFolder::names() const {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(path_)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

void write_file(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace dhyan::testing

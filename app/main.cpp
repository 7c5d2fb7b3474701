// SPDX-License-Identifier: Apache-2.0
// The dhyan command.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <new>
#include <system_error>

#include "commands/commands.hpp"
#include "dhyan/dhyan.hpp"
#include "io/save.hpp"
#include "report/terminal.hpp"
#include "signals.hpp"

namespace dhyan::app {
namespace {

// Leaves at once, whatever is being computed; only async-signal-safe calls.
void interrupted(int) {
  remove_temporary_files();
  constexpr char clear[] = "\r\033[K";
  if (isatty(STDERR_FILENO) && write(STDERR_FILENO, clear, sizeof clear - 1) < 0) _exit(exit_interrupted);
  _exit(exit_interrupted);
}

// A mapped file that shrinks while it is read ends like this.
void lost_file(int) {
  remove_temporary_files();
  constexpr char sentence[] = "dhyan: a file became shorter while it was read\n";
  if (write(STDERR_FILENO, sentence, sizeof sentence - 1) < 0) _exit(exit_runtime);
  _exit(exit_runtime);
}

// A program may be started without standard streams; a result file must not become one of them.
void hold_standard_streams() {
  int file = 0;
  while (file >= 0 && file <= STDERR_FILENO) file = open("/dev/null", O_RDONLY | O_CLOEXEC);  // writing to it still fails
  if (file > STDERR_FILENO) close(file);
}

// Names in a sentence may hold anything; where standard error is lost, the exit code has to do.
int complain(std::string_view sentence, Exit code) {
  const std::string line = "dhyan: " + printable(sentence) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
  return code;
}

Exit exit_of(Status status) {
  return status == Status::invalid_argument || status == Status::unsupported ? exit_bad_input : exit_runtime;
}

int run(int argc, char** argv) {
  CLI::App app("Scaled dot-product attention: run it on files, compare implementations, time them, check this machine.",
               "dhyan");
  app.set_version_flag("--version", std::string("dhyan ") + dhyan_version());
  app.require_subcommand(1);
  app.footer(
      "dhyan COMMAND --help shows a command's options and examples.\n"
      "Exit codes: 0 ok, 1 a check failed, 2 bad usage or input, 3 failed at run time, 130 interrupted.");
  Action action;
  add_lab(app, action);
  add_info(app, action);
  add_run(app, action);
  add_bench(app, action);
  add_check(app, action);
  add_report(app, action);
  if (argc > 1 && argv[1][0] != '-') {
    std::string names;
    bool known = false;
    for (const CLI::App* command : app.get_subcommands(nullptr)) {
      known = known || command->get_name() == argv[1];
      names += (names.empty() ? "" : ", ") + command->get_name();
    }
    if (!known) refuse("{} is not a command; there are {}", shown(argv[1]), names);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error) == 0 ? exit_ok : exit_bad_input;
    return complain(std::string(error.what()) + "; dhyan --help lists what there is", exit_bad_input);
  }
  const int code = action();
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) return complain("standard output cannot be written", exit_runtime);
  return code;
}

}  // namespace
}  // namespace dhyan::app

int main(int argc, char** argv) {
  using namespace dhyan::app;
  hold_standard_streams();
  handle(SIGINT, interrupted);
  handle(SIGTERM, interrupted);
  if (!is_ignored(SIGHUP)) handle(SIGHUP, interrupted);
  handle(SIGBUS, lost_file);
  std::signal(SIGXFSZ, SIG_IGN);  // a file over the shell's limit is then an error of write() like a full disk
  try {
    return run(argc, argv);
  } catch (const Failure& failure) {
    return complain(failure.what(), failure.code());
  } catch (const dhyan::Error& error) {
    return complain(error.what(), exit_of(error.status()));
  } catch (const std::bad_alloc&) {
    return complain("there is not enough memory for this", exit_runtime);
  } catch (const std::system_error& error) {
    return complain("standard output cannot be written: " + error.code().message(), exit_runtime);  // fmt's way to say it
  } catch (const std::exception& error) {
    return complain(error.what(), exit_runtime);
  }
}

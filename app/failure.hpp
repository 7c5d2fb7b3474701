// SPDX-License-Identifier: Apache-2.0
// How a command ends, and the exceptions that end it early.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>

namespace dhyan::app {

enum Exit : int { exit_ok = 0, exit_check_failed = 1, exit_bad_input = 2, exit_runtime = 3, exit_interrupted = 130 };

// One sentence for the user, and the exit code that goes with it.
class Failure : public std::runtime_error {
 public:
  Failure(Exit code, const std::string& sentence) : std::runtime_error(sentence), code_(code) {}
  Exit code() const { return code_; }

 private:
  Exit code_;
};

// Wrong arguments or files.
template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  throw Failure(exit_bad_input, fmt::format(format, std::forward<Args>(args)...));
}

// Memory, disk, device.
template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Failure(exit_runtime, fmt::format(format, std::forward<Args>(args)...));
}

// Text from a file or a command line, made safe for a terminal: quoted, control bytes escaped, long ones cut.
std::string shown(std::string_view text);

}  // namespace dhyan::app

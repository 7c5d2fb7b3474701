// SPDX-License-Identifier: Apache-2.0
#include "report/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

namespace dhyan::app {
namespace {

bool has_colours() {
  static const bool result = [] {
    const char* none = std::getenv("NO_COLOR");
    const char* term = std::getenv("TERM");
    return isatty(STDOUT_FILENO) && !(none && *none) && term && std::string_view(term) != "dumb";
  }();
  return result;
}

}  // namespace

std::string painted(Colour colour, std::string_view text) {
  constexpr const char* codes[] = {"", "1", "2", "32", "31", "33", "34"};
  if (colour == Colour::none || text.empty() || !has_colours()) return std::string(text);
  return "\033[" + std::string(codes[static_cast<int>(colour)]) + "m" + std::string(text) + "\033[0m";
}

int terminal_width() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 100;
}

bool error_is_terminal() { return isatty(STDERR_FILENO); }

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\033') {
      while (i < text.size() && text[i] != 'm') ++i;
    } else if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) {
      ++width;
    }
  }
  return width;
}

}  // namespace dhyan::app

// SPDX-License-Identifier: Apache-2.0
#include "report/terminal.hpp"

#include <locale.h>  // NOLINT(modernize-deprecated-headers): newlocale is POSIX's
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>  // NOLINT(modernize-deprecated-headers): so is wcwidth

#include <algorithm>
#include <cstdlib>

namespace dhyan::app {
namespace {

constexpr std::string_view replacement = "\xef\xbf\xbd";

bool has_colours() {
  static const bool result = [] {
    const char* none = std::getenv("NO_COLOR");
    const char* term = std::getenv("TERM");
    return isatty(STDOUT_FILENO) && !(none && *none) && term && std::string_view(term) != "dumb";
  }();
  return result;
}

// A character of UTF-8 text. What is not UTF-8 is one byte long and has code 0xFFFD.
struct Character {
  std::string_view bytes;
  char32_t code;
};

Character character_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned char first = byte(0);
  const std::size_t length = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (length == 1) return {text.substr(at, 1), first};
  const Character wrong{text.substr(at, 1), 0xfffd};
  if (length == 0 || text.size() - at < length) return wrong;
  char32_t code = first & (0xff >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return wrong;
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr char32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < least[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return wrong;
  return {text.substr(at, length), code};
}

// Columns, or -1 for what a terminal should not see. The C library knows, once it is told that this is Unicode.
int columns_of(char32_t code) {
  if (code < 0x80) return code >= 0x20 && code < 0x7f ? 1 : -1;
  // marks and overrides of direction, joiners, invisible operators, the byte order mark, separators of lines
  if (code < 0xa0 || code == 0x61c || (code >= 0x200b && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
      (code >= 0x2060 && code <= 0x206f) || code == 0xfeff || code >= 0xe0000) {
    return -1;
  }
  static const locale_t unicode = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  if (!unicode) return 1;
  const locale_t before = uselocale(unicode);
  const int columns = wcwidth(static_cast<wchar_t>(code));
  uselocale(before);
  return columns;
}

}  // namespace

std::string painted(Colour colour, std::string_view text) {
  constexpr const char* codes[] = {"", "1", "2", "32", "31", "33", "34", "35"};
  if (colour == Colour::none || text.empty() || !has_colours()) return std::string(text);
  return "\033[" + std::string(codes[static_cast<int>(colour)]) + "m" + std::string(text) + "\033[0m";
}

int terminal_width(int otherwise) {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return otherwise;
}

bool error_is_terminal() { return isatty(STDERR_FILENO); }

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == '\033') {
      i = std::min(text.find('m', i), text.size() - 1) + 1;
      continue;
    }
    const Character character = character_at(text, i);
    width += static_cast<std::size_t>(std::max(columns_of(character.code), 0));
    i += character.bytes.size();
  }
  return width;
}

std::string printable(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    const Character character = character_at(text, i);
    if (character.code == '\t' || character.code == '\n' || character.code == '\r') {
      result += ' ';
    } else if (columns_of(character.code) < 0 || character.code == 0xfffd) {
      result += replacement;
    } else {
      result += character.bytes;
    }
    i += character.bytes.size();
  }
  return result;
}

std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  std::vector<std::string> lines(1);
  std::size_t used = 0;
  const auto next_line = [&] {
    lines.emplace_back();
    used = 0;
  };
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t word = std::min(text.find_first_not_of(' ', i), text.size());
    const std::size_t end = std::min(text.find(' ', word), text.size());
    const std::size_t needed = display_width(text.substr(word, end - word));
    if (word == end) break;
    const std::size_t blanks = used > 0 ? word - i : 0;
    if (used + blanks + needed <= width || (used + blanks + 2 <= width && needed > width)) {
      lines.back().append(blanks, ' ');
      used += blanks;
    } else if (used > 0) {
      next_line();
    }
    for (i = word; i < end;) {  // a word longer than a line is broken where the line ends
      const Character character = character_at(text, i);
      const std::size_t columns = display_width(character.bytes);
      if (used + columns > width) next_line();
      lines.back() += character.bytes;
      used += columns;
      i += character.bytes.size();
    }
  }
  return lines;
}

}  // namespace dhyan::app

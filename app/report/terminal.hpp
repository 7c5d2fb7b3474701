// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dhyan::app {

enum class Colour { none, bold, dim, green, red, yellow, blue, magenta };

// Colours `text` when standard output is a terminal that has colours and NO_COLOR is not set.
std::string painted(Colour colour, std::string_view text);
// Columns of the terminal behind standard output; where there is none, `otherwise`.
int terminal_width(int otherwise = 100);
// Whether standard error is a terminal.
bool error_is_terminal();

// Columns that UTF-8 text takes, colour sequences not counted.
std::size_t display_width(std::string_view text);
// One line that a terminal only shows: white space becomes blanks; control characters, what turns the direction of writing, and
// bytes that are not UTF-8 become �.
std::string printable(std::string_view text);
// Printable text in lines of at most `width` (2 or more) columns, broken at blanks where that can be. At least one line.
std::vector<std::string> wrapped(std::string_view text, std::size_t width);

}  // namespace dhyan::app

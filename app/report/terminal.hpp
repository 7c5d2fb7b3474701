// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace dhyan::app {

enum class Colour { none, bold, dim, green, red, yellow, blue };

// Colours `text` when standard output is a terminal that has colours and NO_COLOR is not set.
std::string painted(Colour colour, std::string_view text);
// Columns of the terminal behind standard output; 100 where there is none.
int terminal_width();
// Whether standard error is a terminal.
bool error_is_terminal();
// Columns that UTF-8 text takes, colour sequences not counted.
std::size_t display_width(std::string_view text);

}  // namespace dhyan::app

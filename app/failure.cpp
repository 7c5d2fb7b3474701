// SPDX-License-Identifier: Apache-2.0
#include "failure.hpp"

namespace dhyan::app {

std::string shown(std::string_view text) {
  constexpr std::size_t longest = 80;
  std::string result = "\"";
  for (const char c : text.substr(0, longest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f) {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      if (c == '"' || c == '\\') result += '\\';
      result += c;
    }
  }
  result += text.size() > longest ? "…\"" : "\"";
  return result;
}

}  // namespace dhyan::app

// SPDX-License-Identifier: Apache-2.0
#include "io/names.hpp"

#include <algorithm>

#include "failure.hpp"

namespace dhyan::app {

void refuse_name(std::string_view file, std::string_view name, const std::vector<std::string>& names) {
  constexpr std::size_t most = 12;
  std::string list;
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i) list += (i ? ", " : "") + shown(names[i]);
  if (names.size() > most) list += fmt::format(" and {} more", names.size() - most);
  if (names.empty()) refuse("{}: it holds no tensors", file);
  if (name.empty()) refuse("{}: a name must follow, as in {}:NAME; it holds {}", file, file, list);
  refuse("{}: there is no tensor {}; it holds {}", file, shown(name), list);
}

}  // namespace dhyan::app

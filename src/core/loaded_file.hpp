// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>

#include <string>

namespace dhyan::core {

// The file that a symbol of this process was loaded from; empty when it cannot be told.
inline std::string loaded_file_of(const void* symbol) {
  Dl_info found;
  if (symbol == nullptr || dladdr(symbol, &found) == 0 || found.dli_fname == nullptr) return {};
  return found.dli_fname;
}

}  // namespace dhyan::core

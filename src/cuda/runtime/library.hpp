// SPDX-License-Identifier: Apache-2.0
// Optional libraries, opened at run time by their major version and never closed.
#pragma once

#include <string>

namespace dhyan::cuda {

struct OpenLibrary {
  void* handle = nullptr;
  std::string reason;  // why there is none, and where it was looked for
};

// Looks, in this order, among what the process has loaded already; in the directories of DHYAN_LIBRARY_PATH (colons between
// them); where the dynamic loader looks (LD_LIBRARY_PATH, RPATH, ldconfig); beside libdhyan where Python packages put it
// (../nvidia/cu13/lib, ../nvidia/*/lib for older ones); in /usr/local/cuda/lib64.
OpenLibrary open_library(const std::string& soname);

// Null when the library has no such function.
void* find_symbol(void* handle, const char* name);

}  // namespace dhyan::cuda

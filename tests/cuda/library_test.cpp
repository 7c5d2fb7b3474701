// SPDX-License-Identifier: Apache-2.0
// Optional libraries are looked for where the loader's comment says, and their absence is a sentence.
#include "cuda/runtime/library.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "support/program.hpp"

namespace dhyan::testing {
namespace {

TEST(OptionalLibrary, AbsenceNamesTheLibraryAndTheWayOut) {
  const cuda::OpenLibrary library = cuda::open_library("libdhyan_has_no_such_library.so.7");
  EXPECT_EQ(library.handle, nullptr);
  EXPECT_EQ(library.reason,
            "libdhyan_has_no_such_library.so.7 was not found; install it, or name its directory in DHYAN_LIBRARY_PATH");
}

TEST(OptionalLibrary, AFileThatIsNoLibraryIsNamed) {
  const TemporaryFolder folder;
  write_file(folder.file("libdhyan_damaged.so.1"), "no library");
  setenv("DHYAN_LIBRARY_PATH", folder.path().c_str(), 1);
  const cuda::OpenLibrary library = cuda::open_library("libdhyan_damaged.so.1");
  unsetenv("DHYAN_LIBRARY_PATH");
  EXPECT_EQ(library.handle, nullptr);
  EXPECT_NE(library.reason.find(folder.file("libdhyan_damaged.so.1")), std::string::npos) << library.reason;
}

TEST(OptionalLibrary, WhatTheProcessHasLoadedIsUsed) {
  const cuda::OpenLibrary library = cuda::open_library("libstdc++.so.6");
  ASSERT_NE(library.handle, nullptr) << library.reason;
  EXPECT_NE(cuda::find_symbol(library.handle, "__cxa_throw"), nullptr);
  EXPECT_EQ(cuda::find_symbol(library.handle, "no_such_symbol_anywhere"), nullptr);
}

}  // namespace
}  // namespace dhyan::testing

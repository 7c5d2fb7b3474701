// SPDX-License-Identifier: Apache-2.0
// Any text at all: a document that is written and read back the same, or one sentence that says what is wrong.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "failure.hpp"
#include "report/json.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dhyan;
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const std::string written = report::results_json(report::results_from(text, "results.json", "FILE"));
    if (report::results_json(report::results_from(written, "results.json", "FILE")) != written) std::abort();
  } catch (const app::Failure& failure) {
    if (failure.code() != app::exit_bad_input) throw;
  }
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// Any bytes at all: the reader returns a tensor or says in one sentence what is wrong.
#include <cstdint>
#include <span>

#include "failure.hpp"
#include "io/npy.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dhyan::app;
  const Bytes bytes = std::as_bytes(std::span(data, size));
  try {
    read_npy(bytes, "input.npy");
  } catch (const Failure& failure) {
    if (failure.code() != exit_bad_input) throw;
  }
  return 0;
}

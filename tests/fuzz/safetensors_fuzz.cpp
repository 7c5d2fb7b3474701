// SPDX-License-Identifier: Apache-2.0
// Any bytes at all: the reader returns a tensor or says in one sentence what is wrong.
#include <cstdint>
#include <span>

#include "failure.hpp"
#include "io/safetensors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dhyan::app;
  const Bytes bytes = std::as_bytes(std::span(data, size));
  try {
    for (const std::string& name : safetensors_names(bytes, "input.safetensors")) {
      try {
        read_safetensors(bytes, name, "input.safetensors");
      } catch (const Failure&) {
        // One tensor that cannot be read says nothing about the others.
      }
    }
  } catch (const Failure& failure) {
    if (failure.code() != exit_bad_input) throw;
  }
  return 0;
}

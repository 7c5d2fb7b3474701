// SPDX-License-Identifier: Apache-2.0
// The safetensors format: 8 bytes of header length, a JSON header, the tensors' bytes.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "io/array.hpp"
#include "io/bytes.hpp"

namespace dhyan::app {

std::vector<std::string> safetensors_names(Bytes bytes, std::string_view file);
// One tensor. The whole header is checked, whichever tensor is asked for. Throws Failure with one sentence that names `file`.
Array read_safetensors(Bytes bytes, std::string_view name, std::string_view file);

struct NamedArray {
  std::string name;
  const Array* array;
};
// What a file says of itself: names and texts.
using Metadata = std::vector<std::pair<std::string, std::string>>;
// What stands before the tensors' bytes, which follow in the same order without gaps.
std::string safetensors_header(std::span<const NamedArray> tensors, const Metadata& metadata = {});

}  // namespace dhyan::app

// SPDX-License-Identifier: Apache-2.0
// Tensors of tests/data: a plain reader of safetensors files that this project made itself.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace dhyan::testing {

struct StoredTensor {
  std::vector<std::int64_t> shape;
  std::vector<double> values;  // row-major
};

struct StoredFile {
  std::map<std::string, std::string> metadata;
  std::map<std::string, StoredTensor> tensors;
};

// A file of tests/data; throws when it cannot be read.
StoredFile read_stored_file(const std::string& name);

}  // namespace dhyan::testing

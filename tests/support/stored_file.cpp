// SPDX-License-Identifier: Apache-2.0
#include "support/stored_file.hpp"

#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "core/convert.hpp"

namespace dhyan::testing {
namespace {

template <class T>
T read(const char* at) {
  T x;
  std::memcpy(&x, at, sizeof x);
  return x;
}

double element(const std::string& dtype, const char* data, std::size_t i) {
  if (dtype == "F64") return read<double>(data + 8 * i);
  if (dtype == "F32") return read<float>(data + 4 * i);
  if (dtype == "F16") return core::to_float(read<core::Float16>(data + 2 * i));
  if (dtype == "BF16") return core::to_float(read<core::BFloat16>(data + 2 * i));
  if (dtype == "I32") return read<std::int32_t>(data + 4 * i);
  if (dtype == "BOOL") return read<std::uint8_t>(data + i);
  throw std::runtime_error("the tests' data holds no " + dtype);
}

}  // namespace

StoredFile read_stored_file(const std::string& name) {
  const std::string path = std::string(DHYAN_TEST_DATA) + "/" + name;
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot open " + path);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const std::size_t header_end = 8 + read<std::uint64_t>(bytes.data());
  const auto header = nlohmann::json::parse(bytes.begin() + 8, bytes.begin() + static_cast<std::ptrdiff_t>(header_end));
  StoredFile file;
  for (const auto& [key, entry] : header.items()) {
    if (key == "__metadata__") {
      file.metadata = entry.get<std::map<std::string, std::string>>();
      continue;
    }
    StoredTensor& tensor = file.tensors[key];
    tensor.shape = entry["shape"].get<std::vector<std::int64_t>>();
    std::size_t count = 1;
    for (const std::int64_t extent : tensor.shape) count *= static_cast<std::size_t>(extent);
    tensor.values.resize(count);
    const char* data = bytes.data() + header_end + entry["data_offsets"][0].get<std::size_t>();
    for (std::size_t i = 0; i < count; ++i) tensor.values[i] = element(entry["dtype"], data, i);
  }
  return file;
}

}  // namespace dhyan::testing

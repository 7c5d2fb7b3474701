// SPDX-License-Identifier: Apache-2.0
#include "lab/inputs.hpp"

#include <fmt/ranges.h>

#include <algorithm>

namespace dhyan::lab {
namespace {

app::Array prefix(const app::Array& array, std::int64_t length) {
  app::Array result(array.element, {array.shape[0], length, array.shape[2], array.shape[3]});
  const auto row = static_cast<std::size_t>(array.shape[2] * array.shape[3]) * app::info_of(array.element).size;
  const std::size_t from = row * static_cast<std::size_t>(array.shape[1]), to = row * static_cast<std::size_t>(length);
  for (std::size_t b = 0; b < static_cast<std::size_t>(array.shape[0]); ++b) {
    std::copy_n(array.data.data() + b * from, to, result.data.data() + b * to);
  }
  return result;
}

}  // namespace

app::Array normal_array(RandomKey key, app::Element element, const app::Shape& shape) {
  app::Array array(element, shape);
  if (element == app::Element::bf16) {
    normal_bf16(key, array.as<std::uint16_t>());
  } else {
    normal(key, array.as<float>());
  }
  return array;
}

Inputs normal_inputs(std::uint64_t seed, app::Element element, const app::Shape& shape) {
  const std::vector<RandomKey> keys = split(random_key(seed), 3);
  return {normal_array(keys[0], element, shape), normal_array(keys[1], element, shape), normal_array(keys[2], element, shape)};
}

app::Call call_of(const Inputs& inputs, app::Element element, Causal causal) {
  app::Call call;
  call.query = convert_array(inputs.query, element);
  call.key = convert_array(inputs.key, element);
  call.value = convert_array(inputs.value, element);
  call.causal = causal;
  return call;
}

Inputs prefix(const Inputs& inputs, std::int64_t queries, std::int64_t keys) {
  return {prefix(inputs.query, queries), prefix(inputs.key, keys), prefix(inputs.value, keys)};
}

std::string shape_text(std::span<const std::int64_t> shape) { return fmt::format("({})", fmt::join(shape, ", ")); }

}  // namespace dhyan::lab

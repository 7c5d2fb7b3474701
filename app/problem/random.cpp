// SPDX-License-Identifier: Apache-2.0
#include "problem/random.hpp"

namespace dhyan::app {

float Random::normal() {
  const std::uint64_t x = bits();
  const auto sum = static_cast<std::int64_t>((x & 0xffff) + (x >> 16 & 0xffff) + (x >> 32 & 0xffff) + (x >> 48));
  constexpr double mean = 2 * 65535.0;
  constexpr double deviation = 37837.22;  // of the sum of four integers uniform in [0, 65535]
  return static_cast<float>((static_cast<double>(sum) - mean) / deviation);
}

Array random_array(Element element, Shape shape, Random& random, double spread, double centre) {
  Array array(Element::f32, std::move(shape));
  for (float& x : array.as<float>()) x = static_cast<float>(centre + spread * static_cast<double>(random.normal()));
  return element == Element::f32 ? std::move(array) : convert_array(array, element);
}

}  // namespace dhyan::app

// SPDX-License-Identifier: Apache-2.0
// Step 2, inputs: three arrays of random numbers, and the views that tell dhyan what lies where.
#include <cstdio>
#include <span>
#include <string>

#include "common.hpp"

int main() {
  const std::int64_t B = 4, T = 128, N = 8, H = 64;  // batch, tokens, heads, head dimension
  const std::int64_t count = B * T * N * H;
  const std::vector<float> query = normal_numbers(count, 1), key = normal_numbers(count, 2), value = normal_numbers(count, 3);

  const auto text = [](std::span<const std::int64_t> numbers) {
    std::string result;
    for (const std::int64_t x : numbers) result += (result.empty() ? "(" : ", ") + std::to_string(x);
    return result + ")";
  };
  std::printf("%-6s %-17s %-6s %-20s %s\n", "Array", "Shape", "Dtype", "Strides", "Bytes");
  bool right = true;
  const struct {
    const char* name;
    const std::vector<float>& numbers;
  } rows[] = {{"query", query}, {"key", key}, {"value", value}};
  for (const auto& [name, numbers] : rows) {
    const dhyan::TensorView view(numbers.data(), {B, T, N, H});  // contiguous: strides follow from the shape
    std::printf("%-6s %-17s %-6s %-20s %zu\n", name, text(view.shape()).c_str(), "f32", text(view.strides()).c_str(),
                numbers.size() * sizeof(float));
    right = right && view.dtype() == dhyan::DType::f32 && view.strides()[0] == T * N * H && view.strides()[3] == 1;
  }

  // About mean 0 and variance 1, so that scores have a size one can reason about: a sum of H products has variance H.
  double sum = 0, squares = 0;
  for (const float x : query) {
    sum += x;
    squares += double{x} * x;
  }
  const double mean = sum / static_cast<double>(count), variance = squares / static_cast<double>(count) - mean * mean;
  std::printf("\nquery: mean %.3f, variance %.3f\n", mean, variance);
  return right && std::abs(mean) < 0.02 && std::abs(variance - 1) < 0.02 ? 0 : 1;
}

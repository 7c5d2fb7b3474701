// SPDX-License-Identifier: Apache-2.0
#include "support/client.hpp"

#include <algorithm>

#include "core/convert.hpp"
#include "support/random.hpp"

namespace dhyan::testing {
namespace {

constexpr std::size_t kMessage = 512;

template <class Call>
Answer answer(const Call& call) {
  std::array<char, kMessage> message;
  message.fill('?');
  const dhyan_status status = call(message.data(), message.size());
  return {status, message.data()};
}

}  // namespace

Client::Client() {
  dhyan_options_init(&options);
  for (dhyan_tensor& tensor : tensors_) dhyan_tensor_init(&tensor);
}

void Client::add_array(api::Slot slot, const Array& array, const std::vector<int>& dims) {
  if (!array.present()) return;
  given_[slot] = true;
  dhyan_tensor& tensor = tensors_[slot];
  tensor.data = const_cast<void*>(array.data());
  tensor.dtype = array.dtype();
  tensor.rank = static_cast<std::int32_t>(dims.size());
  tensor.alignment = array.alignment();
  for (std::size_t i = 0; i < dims.size(); ++i) {
    tensor.shape[i] = array.shape()[static_cast<std::size_t>(dims[i])];
    tensor.strides[i] = array.strides()[static_cast<std::size_t>(dims[i])];
  }
}

void Client::add_inputs(const Instance& x) {
  const Case& c = x.description;
  const std::vector<int> rows = c.packed ? std::vector<int>{1, 2, 3} : std::vector<int>{0, 1, 2, 3};
  add_array(api::kQuery, x.query, rows);
  add_array(api::kKey, x.key, rows);
  add_array(api::kValue, x.value, rows);
  add_array(api::kBias, x.bias, {0, 1, 2, 3});
  add_array(api::kMask, x.mask, {0, 1, 2, 3});
  add_array(api::kAlibiSlopes, x.alibi_slopes, c.slopes == Slopes::per_head ? std::vector<int>{3} : std::vector<int>{0, 3});
  add_array(api::kSink, x.sink, {3});
  add_array(api::kQueryLengths, x.query_lengths, {3});
  add_array(api::kKeyLengths, x.key_lengths, {3});
  add_array(api::kQueryOffsets, x.query_offsets, {3});
  add_array(api::kKeyOffsets, x.key_offsets, {3});

  options.causal = c.causal;
  options.window_left = c.window_left;
  options.window_right = c.window_right;
  if (c.scale != -1) options.scale = c.scale;
  options.softcap = c.softcap;
  options.dropout_probability = c.dropout;
  options.dropout_seed = c.dropout_seed;
  options.dropout_offset = c.dropout_offset;
  options.batch_origin = c.batch_origin;
  options.head_origin = c.head_origin;
  options.query_origin = c.query_origin;
  options.key_origin = c.key_origin;
  options.threads = c.threads;
  if (c.packed) {
    options.max_query_length = c.query_length;
    options.max_key_length = c.key_length;
  }
}

Client::Client(const Instance& x, Forward& result) : Client() {
  add_inputs(x);
  const bool packed = x.description.packed;
  add_array(api::kOut, result.out, packed ? std::vector<int>{1, 2, 3} : std::vector<int>{0, 1, 2, 3});
  add_array(api::kLse, result.lse, packed ? std::vector<int>{2, 3} : std::vector<int>{0, 2, 3});
}

Client::Client(const Instance& x, Forward& given, Backward& gradients) : Client(x, given) {
  const bool packed = x.description.packed;
  const std::vector<int> rows = packed ? std::vector<int>{1, 2, 3} : std::vector<int>{0, 1, 2, 3};
  add_array(api::kGradOut, x.grad_out, rows);
  add_array(api::kGradLse, x.grad_lse, packed ? std::vector<int>{2, 3} : std::vector<int>{0, 2, 3});
  add_array(api::kGradQuery, gradients.grad_query, rows);
  add_array(api::kGradKey, gradients.grad_key, rows);
  add_array(api::kGradValue, gradients.grad_value, rows);
  add_array(api::kGradBias, gradients.grad_bias, {0, 1, 2, 3});
  add_array(api::kGradSink, gradients.grad_sink, {3});
}

dhyan_tensor& Client::add(api::Slot slot, dhyan_dtype dtype, const std::vector<std::int64_t>& shape) {
  given_[slot] = true;
  dhyan_tensor& tensor = tensors_[slot];
  dhyan_tensor_init(&tensor);
  tensor.dtype = dtype;
  tensor.rank = static_cast<std::int32_t>(shape.size());
  std::int64_t elements = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    tensor.shape[i] = shape[i];
    tensor.strides[i] = elements;
    elements *= shape[i];
  }
  const std::size_t size = std::max<std::size_t>(core::size_of(dtype), 1);
  auto& memory = memory_.emplace_back(static_cast<std::size_t>(elements) * size + 64);
  auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  tensor.data = memory.data() + (64 - address % 64) % 64;
  if (dtype >= DHYAN_F64 && dtype <= DHYAN_BF16) {
    Random random(std::string("client ") + api::kSlotRows[slot].name);
    for (std::int64_t i = 0; i < elements; ++i) core::store(tensor.data, dtype, i, random.normal());
  }
  return tensor;
}

const dhyan_problem* Client::problem() {
  dhyan_problem_init(&problem_);
  problem_.options = &options;
  for (std::size_t i = 0; i < api::kSlots; ++i) {
    if (given_[i]) problem_.*api::kSlotRows[i].view = &tensors_[i];
  }
  return &problem_;
}

dhyan_buffers Client::buffers() const {
  api::Pointers pointers{};
  for (std::size_t i = 0; i < api::kSlots; ++i) {
    if (given_[i]) pointers[i] = tensors_[i].data;
  }
  return api::buffers_of(pointers);
}

Answer Client::run_once(dhyan_direction direction) {
  return answer([&](char* message, std::size_t size) {
    return direction == DHYAN_FORWARD ? dhyan_attention(problem(), nullptr, message, size)
                                      : dhyan_attention_backward(problem(), nullptr, message, size);
  });
}

Answer Client::make_plan(dhyan_direction direction, const dhyan_device_description* device) {
  dhyan_plan* plan = nullptr;
  Answer made = answer(
      [&](char* message, std::size_t size) { return dhyan_plan_create(problem(), direction, device, &plan, message, size); });
  dhyan_plan_destroy(plan);
  return made;
}

Answer Client::run_plan(dhyan_direction direction) {
  dhyan_plan* plan = nullptr;
  Answer made = answer(
      [&](char* message, std::size_t size) { return dhyan_plan_create(problem(), direction, nullptr, &plan, message, size); });
  if (made.status != DHYAN_OK) return made;
  const dhyan_buffers pointers = buffers();
  Answer ran = answer(
      [&](char* message, std::size_t size) { return dhyan_plan_run(plan, &pointers, nullptr, 0, nullptr, message, size); });
  dhyan_plan_destroy(plan);
  return ran;
}

Backward gradient_arrays(const Instance& x) {
  const Case& c = x.description;
  const Layout layout = c.layout == Layout::shared_batch ? Layout::contiguous : c.layout;
  Backward arrays;
  if (c.grad_query) arrays.grad_query = Array(c.dtype, x.query.shape(), layout);
  if (c.grad_key) arrays.grad_key = Array(c.dtype, x.key.shape(), layout);
  if (c.grad_value) arrays.grad_value = Array(c.dtype, x.value.shape(), layout);
  if (c.grad_bias) arrays.grad_bias = x.bias.like();
  if (c.grad_sink) arrays.grad_sink = Array(x.lse.dtype(), x.sink.shape(), Layout::contiguous);
  return arrays;
}

Client small_forward(dhyan_dtype dtype) {
  Client client;
  client.add(api::kQuery, dtype, {2, 3, 4, 8});
  client.add(api::kKey, dtype, {2, 5, 2, 8});
  client.add(api::kValue, dtype, {2, 5, 2, 6});
  client.add(api::kOut, dtype, {2, 3, 4, 6});
  client.add(api::kLse, dtype == DHYAN_F64 ? DHYAN_F64 : DHYAN_F32, {2, 4, 3});
  return client;
}

Client small_backward(dhyan_dtype dtype) {
  Client client = small_forward(dtype);
  client.run_once();
  client.add(api::kGradOut, dtype, {2, 3, 4, 6});
  client.add(api::kGradQuery, dtype, {2, 3, 4, 8});
  client.add(api::kGradKey, dtype, {2, 5, 2, 8});
  client.add(api::kGradValue, dtype, {2, 5, 2, 6});
  return client;
}

}  // namespace dhyan::testing

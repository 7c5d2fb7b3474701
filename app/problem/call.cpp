// SPDX-License-Identifier: Apache-2.0
#include "problem/call.hpp"

#include <algorithm>

#include "failure.hpp"

namespace dhyan::app {
namespace {

std::int64_t integer_at(const Array& array, std::int64_t i) {
  return array.element == Element::i64 ? array.as<std::int64_t>()[i] : array.as<std::int32_t>()[i];
}

// Start and count of sequence b on one side, clamped to the extent as the library does.
void locate(const std::optional<Array>& lengths, const std::optional<Array>& offsets, std::int64_t b, std::int64_t tokens,
            std::int64_t& begin, std::int64_t& count) {
  begin = 0;
  count = tokens;
  if (offsets) {
    begin = std::clamp<std::int64_t>(integer_at(*offsets, b), 0, tokens);
    count = std::clamp<std::int64_t>(integer_at(*offsets, b + 1), begin, tokens) - begin;
  }
  if (lengths) count = integer_at(*lengths, b);
  count = std::clamp<std::int64_t>(count, 0, tokens - begin);
}

void check_rank(std::string_view argument, const Array& array, std::size_t rank, std::string_view form) {
  if (array.shape.size() != rank) {
    refuse("{}: shape {} has {} dimensions; {} has {}", argument, shape_text(array.shape), array.shape.size(), form, rank);
  }
}

void check_count(std::string_view argument, const std::optional<Array>& array, std::int64_t count) {
  if (array && (array->shape.size() != 1 || array->shape[0] != count)) {
    refuse("{}: shape {} does not fit; there must be {} numbers", argument, shape_text(array->shape), count);
  }
}

// The size of the dimension `back` from the end, unless it broadcasts.
std::int64_t broadcast_extent(const std::optional<Array>& array, std::size_t back) {
  if (!array || array->shape.size() < back) return 0;
  const std::int64_t size = array->shape[array->shape.size() - back];
  return size == 1 ? 0 : size;
}

double visible_pairs(const Call& call, const Sequence& s) {
  const bool causal = call.causal != Causal::off;
  std::int64_t shift = call.origin.query - call.origin.key;
  if (call.causal == Causal::bottom_right) shift += s.key_count - s.query_count;
  double pairs = 0;
  for (std::int64_t t = 0; t < s.query_count; ++t) {
    std::int64_t begin = 0, end = s.key_count;
    if (call.window.left >= 0) begin = std::max(begin, t + shift - call.window.left);
    if (call.window.right >= 0) end = std::min(end, t + shift + call.window.right + 1);
    if (causal) end = std::min(end, t + shift + 1);
    pairs += static_cast<double>(std::max<std::int64_t>(end - begin, 0));
  }
  return pairs;
}

TensorView view_of(const std::optional<Array>& array, Device device) { return array ? array->view(device) : TensorView(); }

Options options_of(const Call& call, const Geometry& geometry, Implementation implementation) {
  const Device device = device_of(call, implementation);
  const auto view = [&](const std::optional<Array>& array) { return view_of(array, device); };
  Options options;
  options.causal = call.causal;
  options.window = call.window;
  options.scale = call.scale;
  options.softcap = call.softcap;
  options.bias = view(call.bias);
  options.mask = view(call.mask);
  options.alibi_slopes = view(call.alibi_slopes);
  options.sink = view(call.sink);
  options.query_lengths = view(call.query_lengths);
  options.key_lengths = view(call.key_lengths);
  options.query_offsets = view(call.query_offsets);
  options.key_offsets = view(call.key_offsets);
  if (call.packed()) {
    options.max_query_length = geometry.query_length;
    options.max_key_length = geometry.key_length;
  }
  options.dropout = call.dropout;
  options.origin = call.origin;
  options.implementation = implementation;
  options.threads = call.threads;
  options.deterministic = call.deterministic;
  return options;
}

// Every tensor that is there.
std::vector<Array*> tensors(Call& call) {
  std::vector<Array*> all = {&call.query, &call.key, &call.value};
  for (std::optional<Array>* array :
       {&call.bias, &call.mask, &call.alibi_slopes, &call.sink, &call.query_lengths, &call.key_lengths, &call.query_offsets,
        &call.key_offsets, &call.grad_out, &call.grad_lse}) {
    if (*array) all.push_back(&**array);
  }
  return all;
}

std::vector<Array*> tensors(Outputs& outputs) {
  std::vector<Array*> all = {&outputs.out, &outputs.lse};
  for (std::optional<Array>* array :
       {&outputs.grad_query, &outputs.grad_key, &outputs.grad_value, &outputs.grad_bias, &outputs.grad_sink}) {
    if (*array) all.push_back(&**array);
  }
  return all;
}

}  // namespace

Device device_of(const Call& call, Implementation implementation) {
  return implementation == Implementation::reference ? cpu : call.device;
}

void place(Call& call, Device device) {
  call.device = device;
  for (Array* array : tensors(call)) array->place(device);
}

Geometry geometry_of(const Call& call) {
  const bool packed = call.packed();
  const std::string_view form = packed ? "THD (tokens, heads, head dimension)" : "BTNH (batch, length, heads, head dimension)";
  check_rank("--query", call.query, packed ? 3 : 4, form);
  check_rank("--key", call.key, packed ? 3 : 4, form);
  check_rank("--value", call.value, packed ? 3 : 4, form);
  const auto last = [](const Array& a, std::size_t back) { return a.shape[a.shape.size() - back]; };
  Geometry g;
  g.query_heads = last(call.query, 2);
  g.key_heads = last(call.key, 2);
  g.head_dim = last(call.query, 1);
  g.value_head_dim = last(call.value, 1);
  const std::int64_t query_tokens = last(call.query, 3), key_tokens = last(call.key, 3);
  if (packed) {
    check_rank("--query-offsets", *call.query_offsets, 1, "a list of starts");
    if (call.query_offsets->shape[0] < 1) refuse("--query-offsets: it is empty; B sequences have B + 1 starts");
    g.batch = call.query_offsets->shape[0] - 1;
    check_count("--key-offsets", call.key_offsets, g.batch + 1);
  } else {
    g.batch = call.query.shape[0];
    g.query_length = query_tokens;
    g.key_length = key_tokens;
  }
  check_count("--query-lengths", call.query_lengths, g.batch);
  check_count("--key-lengths", call.key_lengths, g.batch);
  if (packed) {
    // Bias and mask may have room for longer sequences than there are.
    for (const std::optional<Array>* array : {&call.bias, &call.mask}) {
      g.query_length = std::max(g.query_length, broadcast_extent(*array, 2));
      g.key_length = std::max(g.key_length, broadcast_extent(*array, 1));
    }
  }
  for (std::int64_t b = 0; b < g.batch; ++b) {
    Sequence s;
    locate(call.query_lengths, call.query_offsets, b, query_tokens, s.query_begin, s.query_count);
    locate(call.key_lengths, call.key_offsets, b, key_tokens, s.key_begin, s.key_count);
    if (packed) {
      g.query_length = std::max(g.query_length, s.query_count);
      g.key_length = std::max(g.key_length, s.key_count);
    } else {
      s.query_begin += b * query_tokens;
      s.key_begin += b * key_tokens;
    }
    g.sequences.push_back(s);
  }
  // Where all sequences are empty the library takes the number of tokens for the longest.
  if (packed && g.query_length == 0) g.query_length = query_tokens;
  if (packed && g.key_length == 0) g.key_length = key_tokens;
  return g;
}

double flop_count(const Call& call, const Geometry& g, bool backward) {
  const bool ragged = call.packed() || call.query_lengths || call.key_lengths;
  const bool window = call.window.left >= 0 || call.window.right >= 0;
  double pairs = 0;
  if (ragged || window) {
    for (const Sequence& s : g.sequences) pairs += visible_pairs(call, s);
  } else {
    pairs = static_cast<double>(g.batch) * static_cast<double>(g.query_length) * static_cast<double>(g.key_length);
    if (call.causal != Causal::off) pairs /= 2;
  }
  return 2 * pairs * static_cast<double>(g.query_heads) * static_cast<double>(g.head_dim + g.value_head_dim) *
         (backward ? 2.5 : 1);
}

double byte_count(const Call& call, bool backward) {
  const auto bytes = [](const Array& array) { return static_cast<double>(array.data.size()); };
  const auto maybe = [&](const std::optional<Array>& array) { return array ? bytes(*array) : 0; };
  const double out = bytes(call.query) / static_cast<double>(std::max<std::int64_t>(call.query.shape.back(), 1)) *
                     static_cast<double>(call.value.shape.back());
  const double sides = bytes(call.query) + bytes(call.key) + bytes(call.value) + maybe(call.bias) + maybe(call.sink);
  const double forward = sides + out + maybe(call.mask) + maybe(call.alibi_slopes);
  return backward ? forward + out + sides : forward;  // the gradient of out too, and those of the inputs
}

Outputs make_outputs(const Call& call) {
  const bool packed = call.packed();
  Outputs outputs;
  Shape shape = call.query.shape;
  shape.back() = call.value.shape.back();
  outputs.out = Array(call.element(), shape);
  const Element wide = call.element() == Element::f64 ? Element::f64 : Element::f32;
  outputs.lse = Array(wide, packed ? Shape{shape[1], shape[0]} : Shape{shape[0], shape[2], shape[1]});
  if (call.grad_out) {
    outputs.grad_query = Array(call.element(), call.query.shape);
    outputs.grad_key = Array(call.element(), call.key.shape);
    outputs.grad_value = Array(call.element(), call.value.shape);
    if (call.bias) outputs.grad_bias = Array(call.bias->element, call.bias->shape);
    if (call.sink) outputs.grad_sink = Array(wide, call.sink->shape);
  }
  for (Array* array : tensors(outputs)) array->reserve(call.device);
  return outputs;
}

void poison(Outputs& outputs) {
  constexpr std::byte poison{0xff};  // NaN in every floating type
  for (Array* array : tensors(outputs)) {
    std::ranges::fill(array->data.bytes(), poison);
    if (array->on_device.data()) array->on_device.fill(poison);
  }
}

void fetch(Outputs& outputs) {
  for (Array* array : tensors(outputs)) array->fetch();
}

std::vector<std::pair<std::string, const Array*>> named(const Outputs& outputs) {
  std::vector<std::pair<std::string, const Array*>> result = {{"out", &outputs.out}, {"lse", &outputs.lse}};
  const auto add = [&](const char* name, const std::optional<Array>& array) {
    if (array) result.emplace_back(name, &*array);
  };
  add("grad_query", outputs.grad_query);
  add("grad_key", outputs.grad_key);
  add("grad_value", outputs.grad_value);
  add("grad_bias", outputs.grad_bias);
  add("grad_sink", outputs.grad_sink);
  return result;
}

Problem forward_problem(const Call& call, const Outputs& outputs, Implementation implementation) {
  Problem problem;
  const Device device = device_of(call, implementation);
  problem.query = call.query.view(device);
  problem.key = call.key.view(device);
  problem.value = call.value.view(device);
  problem.out = outputs.out.view(device);
  problem.lse = outputs.lse.view(device);
  problem.options = options_of(call, geometry_of(call), implementation);
  return problem;
}

Problem backward_problem(const Call& call, const Outputs& outputs, Implementation implementation) {
  const Device device = device_of(call, implementation);
  const auto view = [&](const std::optional<Array>& array) { return view_of(array, device); };
  Problem problem = forward_problem(call, outputs, implementation);
  problem.grad_out = view(call.grad_out);
  problem.grad_lse = view(call.grad_lse);
  problem.grads = {view(outputs.grad_query), view(outputs.grad_key), view(outputs.grad_value), view(outputs.grad_bias),
                   view(outputs.grad_sink)};
  return problem;
}

Call in_float64(const Call& call) {
  const auto wide = [](const Array& array) { return convert_array(array, Element::f64); };
  const auto copy = [](const Array& array) {
    Array result(array.element, array.shape);
    std::ranges::copy(array.data.bytes(), result.data.data());
    return result;
  };
  const auto maybe = [](const std::optional<Array>& array, const auto& make) {
    return array ? std::optional<Array>(make(*array)) : std::nullopt;
  };
  Call result;
  result.query = wide(call.query);
  result.key = wide(call.key);
  result.value = wide(call.value);
  result.bias = maybe(call.bias, wide);
  result.grad_out = maybe(call.grad_out, wide);
  result.grad_lse = maybe(call.grad_lse, wide);
  result.mask = maybe(call.mask, copy);
  result.alibi_slopes = maybe(call.alibi_slopes, copy);
  result.sink = maybe(call.sink, copy);
  result.query_lengths = maybe(call.query_lengths, copy);
  result.key_lengths = maybe(call.key_lengths, copy);
  result.query_offsets = maybe(call.query_offsets, copy);
  result.key_offsets = maybe(call.key_offsets, copy);
  result.causal = call.causal;
  result.window = call.window;
  result.scale = call.scale;
  result.softcap = call.softcap;
  result.dropout = call.dropout;
  result.origin = call.origin;
  result.threads = call.threads;
  result.deterministic = call.deterministic;
  return result;
}

Runner::Runner(const Problem& problem, bool backward)
    : plan_(backward ? Plan::backward(problem) : Plan::forward(problem)), buffers_(problem), device_(problem.query.device()) {
  if (device_.type == DHYAN_CPU) {
    host_scratch_ = Buffer(plan_.scratch_bytes());
  } else {
    device_scratch_ = DeviceMemory(plan_.scratch_bytes(), device_);
  }
}

std::span<std::byte> Runner::scratch() { return device_.type == DHYAN_CPU ? host_scratch_.bytes() : device_scratch_.bytes(); }

void Runner::run() {
  launch();
  wait_for(device_);
}

void compute(const Problem& problem, bool backward) {
  backward ? attention_backward(problem) : attention(problem);
  wait_for(problem.query.device());
}

}  // namespace dhyan::app

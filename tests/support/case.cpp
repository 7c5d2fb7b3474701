// SPDX-License-Identifier: Apache-2.0
#include "support/case.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <ostream>
#include <sstream>

#include "core/convert.hpp"
#include "core/sequence.hpp"
#include "reference/reference.hpp"

namespace dhyan::testing {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

dhyan_dtype lse_dtype(const Case& c) { return c.dtype == DHYAN_F64 ? DHYAN_F64 : DHYAN_F32; }

// Starts of packed sequences; the last number is where the last one (and its gap) ends.
std::vector<std::int64_t> starts(const std::vector<std::int64_t>& lengths, std::int64_t gap) {
  std::vector<std::int64_t> all{0};
  for (const std::int64_t length : lengths) all.push_back(all.back() + std::max<std::int64_t>(length, 0) + gap);
  return all;
}

Array list(dhyan_dtype dtype, const std::vector<std::int64_t>& values) {
  Array array(dtype, {1, 1, 1, static_cast<std::int64_t>(values.size())}, Layout::contiguous);
  array.fill([&](auto, auto, auto, std::int64_t i) { return static_cast<double>(values[static_cast<std::size_t>(i)]); });
  return array;
}

// Rows that no sequence holds; nothing may come from them.
void poison_uncovered(const Instance& x, bool queries, Array& rows) {
  if (x.description.layout == Layout::shared_batch) return;
  const auto buffers = x.buffers();
  core::uncovered_rows(x.problem, buffers, queries, [&](std::int64_t b, std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token)
      for (std::int64_t head = 0; head < rows.shape()[2]; ++head)
        for (std::int64_t h = 0; h < rows.shape()[3]; ++h) rows.set(b, token, head, h, nan);
  });
}

void fill_bias(const Instance& x, Random& random, Array& bias) {
  const Case& c = x.description;
  bias.fill([&](std::int64_t b, std::int64_t, std::int64_t t, std::int64_t s) {
    if (!c.bias_broadcast[0]) {
      const core::Sequence sequence = x.sequence(b);
      if ((!c.bias_broadcast[2] && t >= sequence.query_count) || (!c.bias_broadcast[3] && s >= sequence.key_count)) return nan;
    }
    const double value = random.normal() * c.bias_spread;
    return random.uniform() < c.bias_minus_infinity ? -infinity : value;
  });
}

void fill_mask(const Case& c, Random& random, Array& mask) {
  const std::int64_t hidden_row = c.mask_broadcast[2] ? -1 : c.query_length / 2;  // one row of the first head sees nothing
  mask.fill([&](std::int64_t, std::int64_t n, std::int64_t t, std::int64_t) {
    const bool keep = random.uniform() < c.mask_keep;
    return keep && !(n == 0 && t == hidden_row) ? 1.0 : 0.0;
  });
}

Shape score_shape(const Case& c, const std::array<bool, 4>& broadcast) {
  Shape shape{c.batch, c.query_heads, c.query_length, c.key_length};
  for (std::size_t i = 0; i < 4; ++i) {
    if (broadcast[i]) shape[i] = 1;
  }
  return shape;
}

// A poisoned array like another, of another type.
Array retyped(const Array& like, dhyan_dtype dtype) {
  return like.present() ? Array(dtype, like.shape(), Layout::contiguous) : Array();
}

constexpr std::array<int, 4> row_order{0, 1, 2, absent_dimension};
constexpr std::array<int, 4> lse_order{0, 2, 3, absent_dimension};
constexpr std::array<int, 4> score_order{0, 1, 2, 3};
constexpr std::array<int, 4> list_order{3, absent_dimension, absent_dimension, absent_dimension};
constexpr std::array<int, 4> slope_order{0, 3, absent_dimension, absent_dimension};

core::Operand rows_of(const Instance& x, const Array& array) {
  core::Operand operand = array.operand(row_order);
  if (x.problem.packed) operand.strides[0] = 0;
  return operand;
}

core::Operand lse_of(const Instance& x, const Array& array) {
  core::Operand operand = array.operand(lse_order);
  if (x.problem.packed) operand.strides[0] = 0;
  return operand;
}

// Scratch of exactly the size asked for, poisoned, with a guard behind it.
class Scratch {
 public:
  explicit Scratch(std::size_t bytes) : bytes_(bytes) {
    memory_ = static_cast<std::byte*>(::operator new[](bytes + guard, std::align_val_t{64}));
    std::memset(memory_, 0xFF, bytes + guard);
  }
  ~Scratch() {
    for (std::size_t i = 0; i < guard; ++i) {
      if (memory_[bytes_ + i] != std::byte{0xFF}) {
        ADD_FAILURE() << "scratch was written past its " << bytes_ << " bytes";
        break;
      }
    }
    ::operator delete[](memory_, std::align_val_t{64});
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  void* data() { return memory_; }

 private:
  static constexpr std::size_t guard = 64;
  std::size_t bytes_;
  std::byte* memory_;
};

void run(const core::ImplementationEntry& entry, core::Problem problem, const core::Buffers& buffers, int threads) {
  if (threads > 0) problem.threads = threads;
  const auto executable = entry.plan(problem, test_device());
  Scratch scratch(executable->scratch_bytes());
  executable->run(buffers, scratch.data(), nullptr);
}

void expect_inside(const Array& array, const char* what) {
  if (!array.present()) return;
  EXPECT_TRUE(array.poison_outside_elements()) << what << ": memory that is no element was written";
}

}  // namespace

dhyan_device_description test_device() {
  dhyan_device_description device{};
  device.struct_size = sizeof device;
  device.device_type = DHYAN_CPU;
  device.memory_bytes = std::int64_t{8} << 30;
  device.threads = 2;
  return device;
}

Instance::Instance(const Case& c, Random random) : description(c) {
  const bool packed = c.packed;
  const std::int64_t batch = packed ? 1 : c.batch;
  const auto query_starts = starts(c.query_lengths, c.packing_gap);
  const auto key_starts = starts(c.key_lengths, c.packing_gap);
  const std::int64_t query_tokens = packed ? query_starts.back() : c.query_length;
  const std::int64_t key_tokens = packed ? key_starts.back() : c.key_length;
  const Layout output_layout = c.layout == Layout::shared_batch ? Layout::contiguous : c.layout;

  query = Array(c.dtype, {batch, query_tokens, c.query_heads, c.head_dim}, c.layout);
  key = Array(c.dtype, {batch, key_tokens, c.key_heads, c.head_dim}, c.layout);
  value = Array(c.dtype, {batch, key_tokens, c.key_heads, c.value_head_dim}, c.layout);
  out = Array(c.dtype, {batch, query_tokens, c.query_heads, c.value_head_dim}, output_layout);
  grad_out = Array(c.dtype, out.shape(), c.layout);
  lse = Array(lse_dtype(c), {batch, 1, c.query_heads, query_tokens}, output_layout);
  if (c.grad_lse) grad_lse = Array(lse_dtype(c), lse.shape(), c.layout);
  if (c.bias != DHYAN_NONE) bias = Array(c.bias, score_shape(c, c.bias_broadcast), output_layout, c.bias_broadcast);
  if (c.mask) mask = Array(DHYAN_BOOL, score_shape(c, c.mask_broadcast), output_layout, c.mask_broadcast);
  if (c.slopes != Slopes::none) {
    const bool shared = c.slopes == Slopes::per_head;
    alibi_slopes = Array(DHYAN_F32, {shared ? 1 : c.batch, 1, 1, c.query_heads}, Layout::contiguous, {shared});
    alibi_slopes.fill([&](auto...) { return random.uniform() * 0.1; });
  }
  if (c.sink) {
    sink = Array(DHYAN_F32, {1, 1, 1, c.query_heads}, Layout::contiguous);
    sink.fill([&](auto...) { return random.normal() + c.sink_value; });
  }
  if (packed) {
    query_offsets = list(c.offsets, query_starts);
    key_offsets = list(c.offsets, key_starts);
  }
  const bool lengths_given = !packed || c.packing_gap > 0;
  if (!c.query_lengths.empty() && lengths_given) query_lengths = list(DHYAN_I32, c.query_lengths);
  if (!c.key_lengths.empty() && lengths_given) key_lengths = list(DHYAN_I32, c.key_lengths);

  core::Problem& p = problem;
  p.dtype = c.dtype;
  p.packed = packed;
  p.batch = c.batch;
  p.query_length = c.query_length;
  p.key_length = c.key_length;
  p.query_tokens = query_tokens;
  p.key_tokens = key_tokens;
  p.query_heads = c.query_heads;
  p.key_heads = c.key_heads;
  p.head_dim = c.head_dim;
  p.value_head_dim = c.value_head_dim;
  p.scale = c.scale == -1 ? 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(c.head_dim, 1))) : c.scale;
  p.softcap = c.softcap;
  p.causal = c.causal;
  p.window_left = c.window_left;
  p.window_right = c.window_right;
  p.dropout.probability = c.dropout;
  p.dropout.threshold = static_cast<std::uint64_t>(c.dropout * 0x1p32);
  p.dropout.key = c.dropout_seed + 0x9E3779B97F4A7C15 * c.dropout_offset;
  p.batch_origin = c.batch_origin;
  p.head_origin = c.head_origin;
  p.query_origin = c.query_origin;
  p.key_origin = c.key_origin;
  p.threads = c.threads;
  p.query = rows_of(*this, query);
  p.key = rows_of(*this, key);
  p.value = rows_of(*this, value);
  p.out = rows_of(*this, out);
  if (c.lse) p.lse = lse_of(*this, lse);
  p.bias = bias.operand(score_order);
  p.bias_shape = bias.shape();
  p.mask = mask.operand(score_order);
  p.alibi_slopes = alibi_slopes.operand(slope_order);
  p.sink = sink.operand(list_order);
  p.query_lengths = query_lengths.operand(list_order);
  p.key_lengths = key_lengths.operand(list_order);
  p.query_offsets = query_offsets.operand(list_order);
  p.key_offsets = key_offsets.operand(list_order);

  query.fill([&](auto...) { return random.normal() * c.spread; });
  key.fill([&](auto...) { return random.normal() * c.spread + c.offset; });
  value.fill([&](auto...) { return random.normal(); });
  grad_out.fill([&](auto...) { return random.normal(); });
  poison_uncovered(*this, true, query);
  poison_uncovered(*this, false, key);
  poison_uncovered(*this, false, value);
  poison_uncovered(*this, true, grad_out);
  if (grad_lse.present()) grad_lse.fill([&](auto...) { return random.normal(); });
  if (bias.present()) fill_bias(*this, random, bias);
  if (mask.present()) fill_mask(c, random, mask);
}

core::Buffers Instance::buffers() const {
  core::Buffers b{};
  b.struct_size = sizeof b;
  b.query = query.data();
  b.key = key.data();
  b.value = value.data();
  b.bias = bias.data();
  b.mask = mask.data();
  b.alibi_slopes = alibi_slopes.data();
  b.sink = sink.data();
  b.query_lengths = query_lengths.data();
  b.key_lengths = key_lengths.data();
  b.query_offsets = query_offsets.data();
  b.key_offsets = key_offsets.data();
  return b;
}

core::Sequence Instance::sequence(std::int64_t b) const { return core::sequence(problem, buffers(), b); }

core::Problem backward_problem(const Instance& x, const Backward& gradients) {
  core::Problem p = x.problem;
  p.direction = DHYAN_BACKWARD;
  p.lse = lse_of(x, x.lse);
  p.grad_out = rows_of(x, x.grad_out);
  if (x.grad_lse.present()) p.grad_lse = lse_of(x, x.grad_lse);
  if (gradients.grad_query.present()) p.grad_query = rows_of(x, gradients.grad_query);
  if (gradients.grad_key.present()) p.grad_key = rows_of(x, gradients.grad_key);
  if (gradients.grad_value.present()) p.grad_value = rows_of(x, gradients.grad_value);
  p.grad_bias = gradients.grad_bias.operand(score_order);
  p.grad_sink = gradients.grad_sink.operand(list_order);
  return p;
}

std::string refusal(const core::ImplementationEntry& entry, const core::Problem& problem) {
  return entry.refuse(problem, test_device()).value_or("");
}

namespace {

void run_forward(const core::ImplementationEntry& entry, const Instance& x, Forward& result, int threads) {
  core::Problem problem = x.problem;
  problem.out = rows_of(x, result.out);
  problem.lse = lse_of(x, result.lse);
  core::Buffers buffers = x.buffers();
  buffers.out = result.out.data();
  buffers.lse = result.lse.data();
  run(entry, problem, buffers, threads);
  expect_inside(result.out, "out");
  expect_inside(result.lse, "lse");
}

void run_backward(const core::ImplementationEntry& entry, const Instance& x, const Forward& given, Backward& result,
                  int threads) {
  core::Buffers buffers = x.buffers();
  buffers.out = const_cast<void*>(given.out.data());
  buffers.lse = const_cast<void*>(given.lse.data());
  buffers.grad_out = x.grad_out.data();
  buffers.grad_lse = x.grad_lse.data();
  buffers.grad_query = result.grad_query.data();
  buffers.grad_key = result.grad_key.data();
  buffers.grad_value = result.grad_value.data();
  buffers.grad_bias = result.grad_bias.data();
  buffers.grad_sink = result.grad_sink.data();
  run(entry, backward_problem(x, result), buffers, threads);
  expect_inside(result.grad_query, "grad_query");
  expect_inside(result.grad_key, "grad_key");
  expect_inside(result.grad_value, "grad_value");
  expect_inside(result.grad_bias, "grad_bias");
  expect_inside(result.grad_sink, "grad_sink");
}

}  // namespace

Backward empty_gradients(const Instance& x) {
  const Case& c = x.description;
  const Layout layout = c.layout == Layout::shared_batch ? Layout::contiguous : c.layout;
  Backward result;
  if (c.grad_query) result.grad_query = Array(c.dtype, x.query.shape(), layout);
  if (c.grad_key) result.grad_key = Array(c.dtype, x.key.shape(), layout);
  if (c.grad_value) result.grad_value = Array(c.dtype, x.value.shape(), layout);
  if (c.grad_bias) result.grad_bias = x.bias.like();
  if (c.grad_sink) result.grad_sink = Array(lse_dtype(c), x.sink.shape(), Layout::contiguous);
  return result;
}

Forward forward(const core::ImplementationEntry& entry, const Instance& x, int threads) {
  Forward result{x.out.like(), x.description.lse ? x.lse.like() : Array()};
  run_forward(entry, x, result, threads);
  return result;
}

Backward backward(const core::ImplementationEntry& entry, const Instance& x, const Forward& given, int threads) {
  Backward result = empty_gradients(x);
  run_backward(entry, x, given, result, threads);
  return result;
}

Forward exact_forward(const Instance& x) {
  Forward result{retyped(x.out, DHYAN_F64), retyped(x.lse, DHYAN_F64)};
  run_forward(reference::entry, x, result, 0);
  return result;
}

Backward exact_backward(const Instance& x, const Forward& given) {
  const Backward own = empty_gradients(x);
  Backward result{retyped(own.grad_query, DHYAN_F64), retyped(own.grad_key, DHYAN_F64), retyped(own.grad_value, DHYAN_F64),
                  retyped(own.grad_bias, DHYAN_F64), retyped(own.grad_sink, DHYAN_F64)};
  run_backward(reference::entry, x, given, result, 0);
  return result;
}

Forward rounded(const Instance& x, const Forward& exact) {
  Forward result{x.out.like(), x.lse.like()};
  result.out.assign(exact.out.values());
  result.lse.assign(exact.lse.values());
  return result;
}

std::string describe(const Case& c) {
  std::ostringstream s;
  if (!c.name.empty()) s << c.name << ": ";
  s << core::name_of(c.dtype) << " B" << c.batch << " T" << c.query_length << " S" << c.key_length << " N" << c.query_heads
    << " K" << c.key_heads << " H" << c.head_dim << " Hv" << c.value_head_dim << ' ' << name_of(c.layout);
  if (c.scale != -1) s << " scale=" << c.scale;
  if (c.softcap != 0) s << " softcap=" << c.softcap;
  if (c.causal != DHYAN_CAUSAL_OFF) s << (c.causal == DHYAN_CAUSAL_TOP_LEFT ? " causal=top_left" : " causal=bottom_right");
  if (c.window_left >= 0 || c.window_right >= 0) s << " window=" << c.window_left << ',' << c.window_right;
  const auto broadcast = [&](const std::array<bool, 4>& ones) {
    for (std::size_t i = 0; i < 4; ++i) s << (ones[i] ? '1' : "BNTS"[i]);
  };
  if (c.bias != DHYAN_NONE) {
    s << " bias=" << core::name_of(c.bias) << ',';
    broadcast(c.bias_broadcast);
  }
  if (c.mask) {
    s << " mask=";
    broadcast(c.mask_broadcast);
  }
  if (c.slopes != Slopes::none) s << (c.slopes == Slopes::per_head ? " alibi=N" : " alibi=BN");
  if (c.sink) s << " sink";
  const auto lengths = [&](const char* what, const std::vector<std::int64_t>& values) {
    if (values.empty()) return;
    s << what;
    for (std::size_t i = 0; i < values.size(); ++i) s << (i ? "," : "") << values[i];
  };
  if (c.packed) s << " packed gap=" << c.packing_gap << ' ' << core::name_of(c.offsets);
  lengths(" query_lengths=", c.query_lengths);
  lengths(" key_lengths=", c.key_lengths);
  if (c.dropout > 0) s << " dropout=" << c.dropout;
  if (c.batch_origin || c.head_origin || c.query_origin || c.key_origin) {
    s << " origins=" << c.batch_origin << ',' << c.head_origin << ',' << c.query_origin << ',' << c.key_origin;
  }
  if (c.grad_lse) s << " grad_lse";
  if (c.grad_bias) s << " grad_bias";
  if (c.grad_sink) s << " grad_sink";
  if (c.spread != 1) s << " spread=" << c.spread;
  if (c.offset != 0) s << " offset=" << c.offset;
  return s.str();
}

void PrintTo(const Case& c, std::ostream* stream) { *stream << describe(c); }

}  // namespace dhyan::testing

// SPDX-License-Identifier: Apache-2.0
/**
 * @file dhyan.hpp
 * @brief Scaled dot-product attention for C++20: an inline layer over dhyan.h.
 *
 * Views go in, results are written where the output views point. Every function throws dhyan::Error with one sentence that
 * names the argument, its value and the rule. Shapes, letters and semantics are those of dhyan.h.
 *
 * @code
 *   dhyan::attention(query, key, value, out, {.causal = dhyan::Causal::top_left});
 * @endcode
 */
#ifndef DHYAN_DHYAN_HPP
#define DHYAN_DHYAN_HPP

#if __cplusplus < 202002L
#error "dhyan.hpp needs C++20 (-std=c++20); dhyan.h does with C"
#endif

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "dhyan/dhyan.h"

namespace dhyan {

enum class Status : std::int32_t {
  ok = DHYAN_OK,
  invalid_argument = DHYAN_INVALID_ARGUMENT,
  unsupported = DHYAN_UNSUPPORTED,
  out_of_memory = DHYAN_OUT_OF_MEMORY,
  device_error = DHYAN_DEVICE_ERROR,
  internal = DHYAN_INTERNAL
};

enum class DType : std::int32_t {
  none = DHYAN_NONE,
  f64 = DHYAN_F64,
  f32 = DHYAN_F32,
  f16 = DHYAN_F16,
  bf16 = DHYAN_BF16,
  e4m3 = DHYAN_E4M3,
  e5m2 = DHYAN_E5M2,
  boolean = DHYAN_BOOL,
  i32 = DHYAN_I32,
  i64 = DHYAN_I64
};

enum class Implementation : std::int32_t {
  automatic = DHYAN_AUTO,
  reference = DHYAN_REFERENCE,
  naive = DHYAN_NAIVE,
  fused = DHYAN_FUSED,
  cudnn = DHYAN_CUDNN
};

enum class Causal : std::int32_t {
  off = DHYAN_CAUSAL_OFF,
  top_left = DHYAN_CAUSAL_TOP_LEFT,
  bottom_right = DHYAN_CAUSAL_BOTTOM_RIGHT
};

enum class Precision : std::int32_t { standard = DHYAN_PRECISION_DEFAULT, tf32 = DHYAN_PRECISION_TF32 };

/// What the library answers with instead of a result: a code, and one sentence as what().
class Error : public std::runtime_error {
 public:
  Error(Status status, const std::string& sentence) : std::runtime_error(sentence), status_(status) {}
  Status status() const noexcept { return status_; }

 private:
  Status status_;
};

/// 16-bit elements, for views that know their type; only the bits are stored.
struct BFloat16 {
  std::uint16_t bits;
};
struct Float16 {
  std::uint16_t bits;
};

struct Device {
  std::int32_t type = DHYAN_CPU;
  std::int32_t index = 0;
};

inline constexpr Device cpu{};
inline constexpr Device cuda(std::int32_t index) { return {DHYAN_CUDA, index}; }

/// The element type that a C++ type stands for.
template <class T>
constexpr DType dtype_of() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, double>) {
    return DType::f64;
  } else if constexpr (std::is_same_v<U, float>) {
    return DType::f32;
  } else if constexpr (std::is_same_v<U, Float16>) {
    return DType::f16;
  } else if constexpr (std::is_same_v<U, BFloat16>) {
    return DType::bf16;
  } else if constexpr (std::is_same_v<U, bool>) {
    return DType::boolean;
  } else if constexpr (std::is_same_v<U, std::int32_t>) {
    return DType::i32;
  } else {
    static_assert(std::is_same_v<U, std::int64_t>, "dhyan has no element type for this C++ type");
    return DType::i64;
  }
}

/// A non-owning view of a tensor: pointer, element type, device, shape and strides in elements. A default-made view is absent.
class TensorView {
 public:
  TensorView() { dhyan_tensor_init(&tensor_); }

  /// Contiguous, row-major; the element type follows from the pointer. Inputs may be const: only outputs are written.
  template <class T>
  TensorView(T* data, std::initializer_list<std::int64_t> shape, Device device = cpu)
      : TensorView(data, dtype_of<T>(), std::span(shape.begin(), shape.size()), {}, device) {}

  template <class T>
  TensorView(T* data, std::initializer_list<std::int64_t> shape, std::initializer_list<std::int64_t> strides,
             Device device = cpu)
      : TensorView(data, dtype_of<T>(), std::span(shape.begin(), shape.size()), std::span(strides.begin(), strides.size()),
                   device) {}

  /// Everything by hand; empty strides mean contiguous. A null pointer is fine in a Problem that is only planned.
  TensorView(const void* data, DType dtype, std::span<const std::int64_t> shape, std::span<const std::int64_t> strides = {},
             Device device = cpu) {
    dhyan_tensor_init(&tensor_);
    if (shape.size() > DHYAN_MAX_RANK) {
      throw Error(Status::invalid_argument, "tensor: rank " + std::to_string(shape.size()) + ", at most 4 is allowed");
    }
    if (!strides.empty() && strides.size() != shape.size()) {
      throw Error(Status::invalid_argument, "tensor: " + std::to_string(strides.size()) + " strides for rank " +
                                                std::to_string(shape.size()) + ", both must have the same length");
    }
    tensor_.data = const_cast<void*>(data);
    tensor_.dtype = static_cast<dhyan_dtype>(dtype);
    tensor_.device_type = device.type;
    tensor_.device_index = device.index;
    tensor_.rank = static_cast<std::int32_t>(shape.size());
    std::int64_t stride = 1;
    for (std::size_t i = shape.size(); i-- > 0;) {
      tensor_.shape[i] = shape[i];
      tensor_.strides[i] = strides.empty() ? stride : strides[i];
      // Unsigned: a product too large for 64 bits is the library's to refuse, not undefined here.
      stride = static_cast<std::int64_t>(static_cast<std::uint64_t>(stride) * static_cast<std::uint64_t>(shape[i]));
    }
  }

  /// The alignment in bytes that every pointer given to a plan's run will have.
  TensorView& align(std::int32_t bytes) {
    tensor_.alignment = bytes;
    return *this;
  }

  bool present() const { return tensor_.dtype != DHYAN_NONE; }
  void* data() const { return tensor_.data; }
  DType dtype() const { return static_cast<DType>(tensor_.dtype); }
  Device device() const { return {tensor_.device_type, tensor_.device_index}; }
  std::span<const std::int64_t> shape() const { return {tensor_.shape, static_cast<std::size_t>(tensor_.rank)}; }
  std::span<const std::int64_t> strides() const { return {tensor_.strides, static_cast<std::size_t>(tensor_.rank)}; }

  /// The C view; null when absent.
  const dhyan_tensor* c() const { return present() ? &tensor_ : nullptr; }

 private:
  dhyan_tensor tensor_;
};

/// Keys t + d - left <= s <= t + d + right are visible; -1: unlimited.
struct Window {
  std::int64_t left = -1;
  std::int64_t right = -1;
};

/// Dropout of the weights; see dhyan_options::dropout_probability for the exact rule.
struct Dropout {
  double probability = 0;
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;
};

/// Where a shard lies in a larger problem.
struct Origin {
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::int64_t query = 0;
  std::int64_t key = 0;
};

/// Everything but the tensors that every call has. Absent views and defaults mean "off".
struct Options {
  Causal causal = Causal::off;
  Window window = {};
  std::optional<double> scale = {};  ///< default 1 / sqrt(head_dim)
  double softcap = 0;
  TensorView bias = {};
  TensorView mask = {};
  TensorView alibi_slopes = {};
  TensorView sink = {};
  TensorView query_lengths = {};
  TensorView key_lengths = {};
  TensorView query_offsets = {};
  TensorView key_offsets = {};
  std::int64_t max_query_length = 0;  ///< packed sequences; 0: the number of tokens
  std::int64_t max_key_length = 0;
  Dropout dropout = {};
  Origin origin = {};
  Precision precision = Precision::standard;
  Implementation implementation = Implementation::automatic;
  std::int32_t threads = 0;  ///< 0: all
  bool allow_jit = false;
  bool check_pointers = false;
  bool deterministic = false;  ///< gradients have the same bits in every run
};

/// Where gradients go; absent ones are not computed.
struct Gradients {
  TensorView query = {};
  TensorView key = {};
  TensorView value = {};
  TensorView bias = {};
  TensorView sink = {};
};

/// One attention problem, forward (query, key, value, out, optional lse) or backward (all of them, grad_out, grads).
struct Problem {
  TensorView query = {};
  TensorView key = {};
  TensorView value = {};
  TensorView out = {};
  TensorView lse = {};
  TensorView grad_out = {};
  TensorView grad_lse = {};
  Gradients grads = {};
  Options options = {};
};

namespace detail {

inline void check(dhyan_status status, const char* message) {
  if (status != DHYAN_OK) throw Error(static_cast<Status>(status), message);
}

/// Room for the library's sentence; longer ones are cut.
using Message = std::array<char, 1024>;

/// The C form of a problem; points into the Problem it was made from.
struct CProblem {
  dhyan_options options;
  dhyan_problem problem;

  explicit CProblem(const Problem& from) {
    const Options& o = from.options;
    dhyan_options_init(&options);
    options.implementation = static_cast<dhyan_implementation>(o.implementation);
    options.causal = static_cast<dhyan_causal>(o.causal);
    options.window_left = o.window.left;
    options.window_right = o.window.right;
    options.scale = o.scale.value_or(std::numeric_limits<double>::quiet_NaN());
    options.softcap = o.softcap;
    options.dropout_probability = o.dropout.probability;
    options.dropout_seed = o.dropout.seed;
    options.dropout_offset = o.dropout.offset;
    options.batch_origin = o.origin.batch;
    options.head_origin = o.origin.head;
    options.query_origin = o.origin.query;
    options.key_origin = o.origin.key;
    options.max_query_length = o.max_query_length;
    options.max_key_length = o.max_key_length;
    options.precision = static_cast<dhyan_precision>(o.precision);
    options.threads = o.threads;
    options.allow_jit = o.allow_jit ? 1 : 0;
    options.check_pointers = o.check_pointers ? 1 : 0;
    options.deterministic = o.deterministic ? 1 : 0;

    dhyan_problem_init(&problem);
    problem.options = &options;
    problem.query = from.query.c();
    problem.key = from.key.c();
    problem.value = from.value.c();
    problem.out = from.out.c();
    problem.lse = from.lse.c();
    problem.bias = o.bias.c();
    problem.mask = o.mask.c();
    problem.alibi_slopes = o.alibi_slopes.c();
    problem.sink = o.sink.c();
    problem.query_lengths = o.query_lengths.c();
    problem.key_lengths = o.key_lengths.c();
    problem.query_offsets = o.query_offsets.c();
    problem.key_offsets = o.key_offsets.c();
    problem.grad_out = from.grad_out.c();
    problem.grad_lse = from.grad_lse.c();
    problem.grad_query = from.grads.query.c();
    problem.grad_key = from.grads.key.c();
    problem.grad_value = from.grads.value.c();
    problem.grad_bias = from.grads.bias.c();
    problem.grad_sink = from.grads.sink.c();
  }
  CProblem(const CProblem&) = delete;
  CProblem& operator=(const CProblem&) = delete;
};

/// A text that the library measures first and then writes.
template <class Write>
std::string text(const Write& write) {
  std::string result(write(nullptr, 0), '\0');
  write(result.data(), result.size() + 1);
  return result;
}

}  // namespace detail

/// The pointers of one run, members as in Problem.
struct Buffers {
  const void* query = nullptr;
  const void* key = nullptr;
  const void* value = nullptr;
  void* out = nullptr;
  void* lse = nullptr;
  const void* bias = nullptr;
  const void* mask = nullptr;
  const void* alibi_slopes = nullptr;
  const void* sink = nullptr;
  const void* query_lengths = nullptr;
  const void* key_lengths = nullptr;
  const void* query_offsets = nullptr;
  const void* key_offsets = nullptr;
  const void* grad_out = nullptr;
  const void* grad_lse = nullptr;
  void* grad_query = nullptr;
  void* grad_key = nullptr;
  void* grad_value = nullptr;
  void* grad_bias = nullptr;
  void* grad_sink = nullptr;

  Buffers() = default;
  /// The pointers a problem's views carry.
  explicit Buffers(const Problem& p)
      : query(p.query.data()),
        key(p.key.data()),
        value(p.value.data()),
        out(p.out.data()),
        lse(p.lse.data()),
        bias(p.options.bias.data()),
        mask(p.options.mask.data()),
        alibi_slopes(p.options.alibi_slopes.data()),
        sink(p.options.sink.data()),
        query_lengths(p.options.query_lengths.data()),
        key_lengths(p.options.key_lengths.data()),
        query_offsets(p.options.query_offsets.data()),
        key_offsets(p.options.key_offsets.data()),
        grad_out(p.grad_out.data()),
        grad_lse(p.grad_lse.data()),
        grad_query(p.grads.query.data()),
        grad_key(p.grads.key.data()),
        grad_value(p.grads.value.data()),
        grad_bias(p.grads.bias.data()),
        grad_sink(p.grads.sink.data()) {}
  Buffers(const void* q, const void* k, const void* v, void* o, void* l = nullptr)
      : query(q), key(k), value(v), out(o), lse(l) {}
};

/// A validated problem with its implementation chosen: immutable, holds no pointers, may run from many threads at once.
class Plan {
 public:
  static Plan forward(const Problem& problem, const dhyan_device_description* device = nullptr) {
    return Plan(problem, DHYAN_FORWARD, device);
  }
  static Plan backward(const Problem& problem, const dhyan_device_description* device = nullptr) {
    return Plan(problem, DHYAN_BACKWARD, device);
  }

  /// `scratch`: empty (the library finds its own) or at least scratch_bytes(), 64-byte aligned (256 on a GPU). `stream`: a
  /// cudaStream_t, null on a CPU.
  void run(const Buffers& b, std::span<std::byte> scratch = {}, void* stream = nullptr) const {
    dhyan_buffers buffers;
    dhyan_buffers_init(&buffers);
    buffers.query = b.query;
    buffers.key = b.key;
    buffers.value = b.value;
    buffers.out = b.out;
    buffers.lse = b.lse;
    buffers.bias = b.bias;
    buffers.mask = b.mask;
    buffers.alibi_slopes = b.alibi_slopes;
    buffers.sink = b.sink;
    buffers.query_lengths = b.query_lengths;
    buffers.key_lengths = b.key_lengths;
    buffers.query_offsets = b.query_offsets;
    buffers.key_offsets = b.key_offsets;
    buffers.grad_out = b.grad_out;
    buffers.grad_lse = b.grad_lse;
    buffers.grad_query = b.grad_query;
    buffers.grad_key = b.grad_key;
    buffers.grad_value = b.grad_value;
    buffers.grad_bias = b.grad_bias;
    buffers.grad_sink = b.grad_sink;
    detail::Message message;
    detail::check(dhyan_plan_run(plan_.get(), &buffers, scratch.empty() ? nullptr : scratch.data(), scratch.size(), stream,
                                 message.data(), message.size()),
                  message.data());
  }

  std::size_t scratch_bytes() const { return dhyan_plan_scratch_bytes(plan_.get()); }
  Implementation implementation() const { return static_cast<Implementation>(dhyan_plan_implementation(plan_.get())); }
  /// What was chosen, and why.
  std::string describe() const {
    return detail::text([&](char* text, std::size_t size) { return dhyan_plan_describe(plan_.get(), text, size); });
  }
  const dhyan_plan* c() const { return plan_.get(); }

 private:
  Plan(const Problem& problem, dhyan_direction direction, const dhyan_device_description* device) {
    const detail::CProblem c(problem);
    detail::Message message;
    dhyan_plan* plan = nullptr;
    detail::check(dhyan_plan_create(&c.problem, direction, device, &plan, message.data(), message.size()), message.data());
    plan_.reset(plan);
  }
  struct Destroy {
    void operator()(dhyan_plan* plan) const { dhyan_plan_destroy(plan); }
  };
  std::unique_ptr<dhyan_plan, Destroy> plan_;
};

/// One-shot attention of a whole problem; its views carry the pointers. Plans are cached.
inline void attention(const Problem& problem, void* stream = nullptr) {
  const detail::CProblem c(problem);
  detail::Message message;
  detail::check(dhyan_attention(&c.problem, stream, message.data(), message.size()), message.data());
}

/// out = softmax(scale Q K^T + bias, masked) V.
inline void attention(const TensorView& query, const TensorView& key, const TensorView& value, const TensorView& out,
                      const Options& options = {}, void* stream = nullptr) {
  attention(Problem{.query = query, .key = key, .value = value, .out = out, .options = options}, stream);
}

/// The same, with the natural log of the softmax denominator.
inline void attention(const TensorView& query, const TensorView& key, const TensorView& value, const TensorView& out,
                      const TensorView& lse, const Options& options = {}, void* stream = nullptr) {
  attention(Problem{.query = query, .key = key, .value = value, .out = out, .lse = lse, .options = options}, stream);
}

/// One-shot gradients of a whole problem.
inline void attention_backward(const Problem& problem, void* stream = nullptr) {
  const detail::CProblem c(problem);
  detail::Message message;
  detail::check(dhyan_attention_backward(&c.problem, stream, message.data(), message.size()), message.data());
}

/// Gradients of query, key and value from out and lse of the forward call and the gradient of out.
inline void attention_backward(const TensorView& query, const TensorView& key, const TensorView& value, const TensorView& out,
                               const TensorView& lse, const TensorView& grad_out, const TensorView& grad_query,
                               const TensorView& grad_key, const TensorView& grad_value, const Options& options = {},
                               void* stream = nullptr) {
  attention_backward(Problem{.query = query,
                             .key = key,
                             .value = value,
                             .out = out,
                             .lse = lse,
                             .grad_out = grad_out,
                             .grads = {.query = grad_query, .key = grad_key, .value = grad_value},
                             .options = options},
                     stream);
}

/// Joins two partial results over disjoint sets of keys; see dhyan_merge.
inline void merge(const TensorView& out_a, const TensorView& lse_a, const TensorView& out_b, const TensorView& lse_b,
                  const TensorView& out, const TensorView& lse, void* stream = nullptr) {
  detail::Message message;
  detail::check(
      dhyan_merge(out_a.c(), lse_a.c(), out_b.c(), lse_b.c(), out.c(), lse.c(), stream, message.data(), message.size()),
      message.data());
}

/// Converts between floating element types, to nearest even.
inline void convert(const TensorView& source, const TensorView& destination, void* stream = nullptr) {
  detail::Message message;
  detail::check(dhyan_convert(source.c(), destination.c(), stream, message.data(), message.size()), message.data());
}

/// Why an implementation cannot run on a device at all; nothing when it can.
inline std::optional<std::string> unavailable(Implementation implementation, Device device = cpu) {
  detail::Message message;
  const dhyan_status status = dhyan_implementation_available(static_cast<dhyan_implementation>(implementation), device.type,
                                                             device.index, message.data(), message.size());
  if (status == DHYAN_OK) return std::nullopt;
  return std::string(message.data());
}

/// What a plan must know of a device of this machine.
inline dhyan_device_description describe(Device device) {
  dhyan_device_description description;
  dhyan_device_description_init(&description);
  detail::Message message;
  detail::check(dhyan_device_describe(device.type, device.index, &description, message.data(), message.size()), message.data());
  return description;
}

/// Version, compiler, processor, devices, implementations and libraries, as a JSON object.
inline std::string info() {
  return detail::text([](char* text, std::size_t size) { return dhyan_info(text, size); });
}

}  // namespace dhyan

#endif

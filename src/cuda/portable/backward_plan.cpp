// SPDX-License-Identifier: Apache-2.0
// f16 and bf16: prepare, then by keys (gradients of keys and values; those of queries are added up in memory), then convert.
// Deterministic, or where only queries have gradients: those by queries instead. Gradients of a bias and of a sink have kernels
// of their own.
#include "cuda/portable/backward_plan.hpp"

#include <algorithm>
#include <cstdio>
#include <numbers>

#include "core/early_scale.hpp"
#include "cuda/device.hpp"
#include "cuda/portable/backward.hpp"
#include "cuda/portable/device_limits.hpp"
#include "cuda/portable/problem.hpp"
#include "cuda/runtime/error.hpp"
#include "cuda/runtime/guard.hpp"
#include "cuda/runtime/launch.hpp"

namespace dhyan::cuda::portable {
namespace {

constexpr std::int64_t kMaxPart = std::int64_t{1} << 22;  // elements of all parts of a bias's sums
constexpr int kLeastTerms = 4;                            // tiles that one such part adds up

bool aligned(const core::Problem& p) {
  return std::min({p.query.alignment, p.key.alignment, p.value.alignment, p.grad_out.alignment}) >= kWholeChunk;
}

// What plain kernels do.
bool plain(const core::Problem& p) { return masked_by_position_only(p) && aligned(p); }

std::size_t head_class(const core::Problem& p) {
  const std::int64_t widest = std::max(p.head_dim, p.value_head_dim);
  std::size_t i = 0;
  while (kBackwardHeadDims[i] < widest) ++i;
  return i;
}

const BackwardKernels& kernels_of(const core::Problem& p) {
  static constexpr const BackwardKernels* kOf[2][kBackwardHeadDims.size()] = {
      {&backward_f16_64, &backward_f16_128, &backward_f16_256},
      {&backward_bf16_64, &backward_bf16_128, &backward_bf16_256},
  };
  return *kOf[p.dtype == DHYAN_BF16][head_class(p)];
}

bool needs_keys(const core::Problem& p) { return p.grad_key.present() || p.grad_value.present(); }
// Gradients of queries have a kernel of their own.
bool by_queries(const core::Problem& p) { return p.grad_query.present() && (p.deterministic || !needs_keys(p)); }

struct Choice {
  KeyShape shape;
  BackwardKernel kernel;
  const char* kind;  // of its masks
};

Choice choose(const core::Problem& p, const dhyan_device_description& device) {
  const BackwardKernels& all = kernels_of(p);
  const auto& shapes = kKeyShapes[head_class(p)];
  const KeyShape& large = shapes[static_cast<int>(BackwardUse::large)];
  if (plain(p) && large.shared_bytes() <= shared_limit(device)) return {large, all.plain_keys, "plain"};
  return {shapes[static_cast<int>(BackwardUse::small)], all.keys, "general"};
}

// Pieces of scratch, one after the other.
struct Pieces {
  std::int64_t bytes = 0;
  std::int64_t take(std::int64_t floats) {
    const std::int64_t at = bytes;
    bytes += ceil_div(floats * 4, std::int64_t{kScratchAlignment}) * std::int64_t{kScratchAlignment};
    return at;
  }
};

// What every dtype's launches are told, and scratch that they share.
struct Common {
  Common(const core::Problem& p, int head_dim) {
    BackwardArguments& a = arguments;
    a.p = p;
    a.group = static_cast<int>(p.group());
    a.sums_width = head_dim;
    a.lanes = std::min(32, a.sums_width / 8);
    a.early = static_cast<float>(core::early_scale(p));
    a.plain = plain(p);
    a.factor = static_cast<float>(p.scale / a.early * (a.plain ? std::numbers::log2e : 1));
    a.scale = static_cast<float>(p.scale);
    a.sums_scale = static_cast<float>(p.scale / a.early);
    a.kept = static_cast<float>(1 / (1 - p.dropout.probability));
    a.aligned = aligned(p);
    constexpr std::int64_t kRowGroup = 8;
    constexpr std::int64_t kRowsOfBlock = 64;
    a.rows_of_head = p.packed ? p.query_tokens : ceil_div(p.query_length, kRowGroup) * kRowGroup;
    a.row_blocks = static_cast<int>(ceil_div(p.query_length, kRowsOfBlock));
    rows = p.query_heads * a.rows_of_head * (p.packed ? 1 : p.batch);
    lse = pieces.take(rows);
    delta = pieces.take(rows);
  }

  BackwardArguments run_arguments(const core::Buffers& buffers, void* scratch) const {
    BackwardArguments a = arguments;
    a.buffers = buffers;
    a.lse = piece(scratch, lse);
    a.delta = piece(scratch, delta);
    return a;
  }
  static float* piece(void* scratch, std::int64_t at) {
    return reinterpret_cast<float*>(static_cast<std::byte*>(scratch) + at);
  }

  BackwardArguments arguments{};
  Pieces pieces;
  std::int64_t rows = 0, lse = 0, delta = 0;
};

void allow(BackwardKernel kernel, int shared_bytes) {
  check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes),
        "fused backward");
}

void start(const char* name, BackwardKernel kernel, std::int64_t blocks, int threads, int shared_bytes,
           const BackwardArguments& a, cudaStream_t stream) {
  if (blocks == 0) return;
  launch(name, kernel, dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads)),
         static_cast<std::size_t>(shared_bytes), stream, a);
}

class Backward final : public core::Executable {
 public:
  Backward(const core::Problem& p, const dhyan_device_description& device)
      : choice_(choose(p, device)), common_(p, choice_.shape.head_dim) {
    const QueryShape& by_query = kQueryShapes[head_class(p)];
    const BackwardKernels& all = kernels_of(p);
    BackwardArguments& a = common_.arguments;
    a.key_tiles = static_cast<int>(ceil_div(p.key_length, choice_.shape.keys()));
    a.query_tiles = static_cast<int>(ceil_div(p.query_length, by_query.queries()));
    adds_queries_ = p.grad_query.present() && !by_queries(p);
    if (adds_queries_) sums_ = common_.pieces.take(common_.rows * a.sums_width);
    if (p.grad_bias.present()) cut_bias(device, by_query);

    const DeviceGuard guard(p.device_index);
    load_backward_steps(p);
    allow(choice_.kernel, choice_.shape.shared_bytes());
    allow(a.plain ? all.plain_queries : all.queries, by_query.shared_bytes());
    allow(all.bias, by_query.shared_bytes());
  }

  void run(const core::Buffers& buffers, void* scratch, void* on) const override {
    const core::Problem& p = common_.arguments.p;
    const DeviceGuard guard(p.device_index);
    auto* const stream = static_cast<cudaStream_t>(on);
    BackwardArguments a = common_.run_arguments(buffers, scratch);
    a.query_sums = adds_queries_ ? Common::piece(scratch, sums_) : nullptr;
    a.bias_parts = p.grad_bias.present() && a.bias_chunks > 1 ? Common::piece(scratch, parts_) : nullptr;
    const BackwardKernels& all = kernels_of(p);
    const QueryShape& by_query = kQueryShapes[head_class(p)];

    if (p.packed) blank_gradients(a, stream);
    prepare_backward(a, stream);
    if (needs_keys(p)) {
      const KeyShape& shape = choice_.shape;
      start("fused backward by keys", choice_.kernel, p.batch * p.key_heads * a.key_tiles, shape.threads(),
            shape.shared_bytes(), a, stream);
    }
    if (adds_queries_) convert_sums(a, stream);
    if (by_queries(p)) {
      start("fused backward by queries", a.plain ? all.plain_queries : all.queries, p.batch * p.query_heads * a.query_tiles,
            by_query.threads(), by_query.shared_bytes(), a, stream);
    }
    if (p.grad_bias.present()) {
      start("fused backward of a bias", all.bias,
            p.bias_shape[0] * p.bias_shape[1] * a.bias_query_tiles * a.bias_key_tiles * a.bias_chunks, by_query.threads(),
            by_query.shared_bytes(), a, stream);
      if (a.bias_parts) sum_bias_parts(a, stream);
    }
    if (p.grad_sink.present()) sum_sink(a, stream);
  }

  std::size_t scratch_bytes() const override { return static_cast<std::size_t>(common_.pieces.bytes); }

  std::string describe() const override {
    char text[200];
    const KeyShape& s = choice_.shape;
    const char* queries = adds_queries_                     ? "added up in memory"
                          : by_queries(common_.arguments.p) ? "by a kernel of their own"
                                                            : "not asked for";
    std::snprintf(text, sizeof text,
                  "mma.sync, %s kernel of head_dim %d: tiles of %d keys and %d queries, %d warps; gradients of queries %s",
                  choice_.kind, s.head_dim, s.keys(), s.queries, s.warps(), queries);
    return text;
  }

 private:
  // Few tiles of a bias with many terms each are cut, so that the device has enough to do.
  void cut_bias(const dhyan_device_description& device, const QueryShape& shape) {
    BackwardArguments& a = common_.arguments;
    const auto& own = a.p.bias_shape;
    const std::int64_t queries = ceil_div(a.p.query_length, shape.queries());
    const std::int64_t keys = ceil_div(a.p.key_length, shape.keys);
    a.bias_query_tiles = static_cast<int>(ceil_div(own[2], shape.queries()));
    a.bias_key_tiles = static_cast<int>(ceil_div(own[3], shape.keys));
    const std::int64_t terms = (own[0] == 1 ? a.p.batch : 1) * (own[1] == 1 ? a.p.query_heads : 1) *
                               (own[2] == 1 ? queries : 1) * (own[3] == 1 ? keys : 1);
    a.bias_terms = static_cast<int>(terms);
    const std::int64_t elements = own[0] * own[1] * own[2] * own[3];
    const std::int64_t tiles = own[0] * own[1] * a.bias_query_tiles * a.bias_key_tiles;
    const std::int64_t wanted = 4 * device.multiprocessors / std::max<std::int64_t>(tiles, 1);
    const std::int64_t room = kMaxPart / std::max<std::int64_t>(elements, 1);
    a.bias_chunks = static_cast<int>(std::max<std::int64_t>(std::min({wanted, room, terms / kLeastTerms}), 1));
    if (a.bias_chunks > 1) parts_ = common_.pieces.take(elements * a.bias_chunks);
  }

  Choice choice_;
  Common common_;
  bool adds_queries_ = false;
  std::int64_t sums_ = 0, parts_ = 0;
};

// f32: each gradient in a launch of its own.
class FloatBackward final : public core::Executable {
 public:
  explicit FloatBackward(const core::Problem& p)
      : shape_(kFloatBackwardShapes[head_class(p)]), kernel_(kernel_of(p)), common_(p, shape_.head_dim) {
    common_.arguments.key_tiles = static_cast<int>(ceil_div(p.key_length, shape_.rows()));
    common_.arguments.query_tiles = static_cast<int>(ceil_div(p.query_length, shape_.rows()));
    const DeviceGuard guard(p.device_index);
    load_backward_steps(p);
    allow(kernel_, shape_.shared_bytes());
  }

  void run(const core::Buffers& buffers, void* scratch, void* on) const override {
    const core::Problem& p = common_.arguments.p;
    const DeviceGuard guard(p.device_index);
    auto* const stream = static_cast<cudaStream_t>(on);
    BackwardArguments a = common_.run_arguments(buffers, scratch);
    if (p.packed) blank_gradients(a, stream);
    prepare_backward(a, stream);
    const auto compute = [&](Gradient gradient, const core::Operand& x, std::int64_t blocks) {
      if (!x.present()) return;
      a.gradient = gradient;
      start("fused f32 backward", kernel_, p.batch * blocks, shape_.threads(), shape_.shared_bytes(), a, stream);
    };
    compute(Gradient::value, p.grad_value, p.key_heads * a.key_tiles);
    compute(Gradient::key, p.grad_key, p.key_heads * a.key_tiles);
    compute(Gradient::query, p.grad_query, p.query_heads * a.query_tiles);
    if (p.grad_sink.present()) sum_sink(a, stream);
  }

  std::size_t scratch_bytes() const override { return static_cast<std::size_t>(common_.pieces.bytes); }

  std::string describe() const override {
    const bool tf32 = common_.arguments.p.precision == DHYAN_PRECISION_TF32;
    char text[160];
    std::snprintf(text, sizeof text,
                  "mma.sync, %s of head_dim %d: a kernel for each gradient, tiles of %d rows by %d, %d warps",
                  tf32 ? "TF32" : "f32 in three products of TF32", shape_.head_dim, shape_.rows(), shape_.stream, shape_.warps);
    return text;
  }

 private:
  static BackwardKernel kernel_of(const core::Problem& p) {
    static constexpr const FloatBackwardKernels* kOf[kBackwardHeadDims.size()] = {&backward_f32_64, &backward_f32_128,
                                                                                  &backward_f32_256};
    const FloatBackwardKernels& all = *kOf[head_class(p)];
    return p.precision == DHYAN_PRECISION_TF32 ? all.tf32 : all.f32;
  }

  FloatBackwardShape shape_;
  BackwardKernel kernel_;
  Common common_;
};

}  // namespace

std::optional<std::string> refuse_backward(const core::Problem& p) {
  if (std::max(p.head_dim, p.value_head_dim) > kBackwardHeadDims.back()) {
    return "fused takes head_dim and value_head_dim up to 256 backward; naive takes any";
  }
  if (p.dtype == DHYAN_F32 && p.grad_bias.present()) {
    return "fused has no gradient of a bias in f32 for CUDA devices yet; naive computes it";
  }
  // The smallest tiles there are.
  constexpr std::int64_t kTile = 32;
  const std::int64_t tiles =
      std::max(p.batch * p.key_heads * (p.key_length / kTile + 1), p.batch * p.query_heads * (p.query_length / kTile + 1));
  bool too_many =
      p.query_length > kMaxPositions || p.key_length > kMaxPositions || p.group() > kMaxPositions || tiles > kMaxPositions;
  if (p.grad_bias.present()) {
    too_many = too_many || p.batch * p.query_heads * (p.query_length / kTile + 1) > kMaxPositions / (p.key_length / kTile + 1);
  }
  if (too_many) return "fused takes at most 1073741823 queries, keys, and tiles of 32 of them backward; naive takes more";
  return std::nullopt;
}

std::unique_ptr<core::Executable> plan_backward(const core::Problem& p, const dhyan_device_description& device) {
  if (p.dtype == DHYAN_F32) return std::make_unique<FloatBackward>(p);
  return std::make_unique<Backward>(p, device);
}

}  // namespace dhyan::cuda::portable

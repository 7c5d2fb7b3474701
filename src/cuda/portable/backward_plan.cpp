// SPDX-License-Identifier: Apache-2.0
// prepare, then by keys (gradients of keys and values; those of queries are added up in memory), then convert. Deterministic,
// or where only queries have gradients: those by queries instead. Gradients of a bias and of a sink have kernels of their own.
#include "cuda/portable/backward_plan.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numbers>

#include "cuda/device.hpp"
#include "cuda/portable/backward.hpp"
#include "cuda/portable/device_limits.hpp"
#include "cuda/runtime/error.hpp"
#include "cuda/runtime/guard.hpp"
#include "cuda/runtime/launch.hpp"

namespace dhyan::cuda::portable {
namespace {

constexpr int kWholeChunk = 16;                                  // bytes that cp.async copies
constexpr std::int64_t kMaxCount = (std::int64_t{1} << 30) - 1;  // positions and blocks are 32-bit numbers in the kernels
constexpr std::int64_t kMaxPart = std::int64_t{1} << 22;         // elements of all parts of a bias's sums
constexpr int kLeastTerms = 4;                                   // tiles that one such part adds up

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

bool aligned(const core::Problem& p) {
  return std::min({p.query.alignment, p.key.alignment, p.value.alignment, p.grad_out.alignment}) >= kWholeChunk;
}

// Whether masks by position are all that happens to a score.
bool plain(const core::Problem& p) {
  return p.softcap == 0 && !p.bias.present() && !p.mask.present() && !p.alibi_slopes.present() && !p.has_dropout() &&
         aligned(p);
}

// One side of a product is multiplied by it, the rest of the scale comes after: no sum overflows that fits once it is scaled.
// Sums of f16 products always fit.
float early_scale(const core::Problem& p) {
  if (p.dtype == DHYAN_F16 || p.scale == 0 || std::abs(p.scale) >= 1) return 1;
  return std::ldexp(1.0F, std::max(std::ilogb(p.scale), std::numeric_limits<float>::min_exponent));
}

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
  const std::size_t of_class = head_class(p);
  const auto with = [&](BackwardUse use, bool is_plain) {
    const int i = static_cast<int>(use);
    return Choice{kKeyShapes[of_class][i], (is_plain ? all.plain : all.general)[i], is_plain ? "plain" : "general"};
  };
  if (plain(p)) {
    const Choice large = with(BackwardUse::large, true);
    if (large.shape.shared_bytes() <= shared_limit(device)) return large;
  }
  return with(BackwardUse::small, false);
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

class Backward final : public core::Executable {
 public:
  Backward(const core::Problem& p, const dhyan_device_description& device) : choice_(choose(p, device)) {
    const QueryShape& by_query = kQueryShapes[head_class(p)];
    const BackwardKernels& all = kernels_of(p);
    BackwardArguments& a = arguments_;
    a.p = p;
    a.group = static_cast<int>(p.group());
    a.key_tiles = static_cast<int>(ceil_div(p.key_length, choice_.shape.keys()));
    a.query_tiles = static_cast<int>(ceil_div(p.query_length, by_query.queries()));
    a.sums_width = choice_.shape.head_dim;
    a.lanes = std::min(32, a.sums_width / 8);
    a.early = early_scale(p);
    const bool to_powers_of_2 = choice_.kind[0] == 'p';
    a.factor = static_cast<float>(p.scale / a.early * (to_powers_of_2 ? std::numbers::log2e : 1));
    a.scale = static_cast<float>(p.scale);
    a.sums_scale = static_cast<float>(p.scale / a.early);
    a.kept = static_cast<float>(1 / (1 - p.dropout.probability));
    a.aligned = aligned(p);

    const std::int64_t rows = p.query_heads * (p.packed ? p.query_tokens : p.batch * p.query_length);
    if (p.grad_query.present() || needs_keys(p) || p.grad_bias.present() || p.grad_sink.present()) {
      lse_ = pieces_.take(rows);
      delta_ = pieces_.take(rows);
    }
    adds_queries_ = p.grad_query.present() && !by_queries(p);
    if (adds_queries_) sums_ = pieces_.take(rows * a.sums_width);
    if (p.grad_bias.present()) cut_bias(device, by_query);

    const DeviceGuard guard(p.device_index);
    load_backward_steps(p);
    allow(choice_.kernel, choice_.shape.shared_bytes());
    allow(plain(p) ? all.plain_queries : all.queries, by_query.shared_bytes());
    allow(all.bias, by_query.shared_bytes());
  }

  void run(const core::Buffers& buffers, void* scratch, void* on) const override {
    const core::Problem& p = arguments_.p;
    const DeviceGuard guard(p.device_index);
    auto* const stream = static_cast<cudaStream_t>(on);
    BackwardArguments a = arguments_;
    a.buffers = buffers;
    auto* const base = static_cast<std::byte*>(scratch);
    const auto piece = [&](std::int64_t at) { return reinterpret_cast<float*>(base + at); };
    a.lse = piece(lse_);
    a.delta = piece(delta_);
    a.query_sums = adds_queries_ ? piece(sums_) : nullptr;
    a.bias_parts = p.grad_bias.present() && a.bias_chunks > 1 ? piece(parts_) : nullptr;
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
      BackwardArguments own = a;
      if (plain(p)) own.factor = static_cast<float>(p.scale / a.early * std::numbers::log2e);
      start("fused backward by queries", plain(p) ? all.plain_queries : all.queries, p.batch * p.query_heads * a.query_tiles,
            by_query.threads(), by_query.shared_bytes(), own, stream);
    }
    if (p.grad_bias.present()) {
      BackwardArguments natural = a;
      natural.factor = natural.sums_scale;
      start("fused backward of a bias", all.bias,
            p.bias_shape[0] * p.bias_shape[1] * a.bias_query_tiles * a.bias_key_tiles * a.bias_chunks, by_query.threads(),
            by_query.shared_bytes(), natural, stream);
      if (a.bias_parts) sum_bias_parts(a, stream);
    }
    if (p.grad_sink.present()) sum_sink(a, stream);
  }

  std::size_t scratch_bytes() const override { return static_cast<std::size_t>(pieces_.bytes); }

  std::string describe() const override {
    char text[200];
    const KeyShape& s = choice_.shape;
    const char* queries = adds_queries_              ? "added up in memory"
                          : by_queries(arguments_.p) ? "by a kernel of their own"
                                                     : "not asked for";
    std::snprintf(text, sizeof text,
                  "mma.sync, %s kernel of head_dim %d: tiles of %d keys and %d queries, %d warps; gradients of queries %s",
                  choice_.kind, s.head_dim, s.keys(), s.queries, s.warps(), queries);
    return text;
  }

 private:
  static void allow(BackwardKernel kernel, int shared_bytes) {
    check(
        cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes),
        "fused backward");
  }

  static void start(const char* name, BackwardKernel kernel, std::int64_t blocks, int threads, int shared_bytes,
                    const BackwardArguments& a, cudaStream_t stream) {
    if (blocks == 0) return;
    launch(name, kernel, dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads)),
           static_cast<std::size_t>(shared_bytes), stream, a);
  }

  // Few tiles of a bias with many terms each are cut, so that the device has enough to do.
  void cut_bias(const dhyan_device_description& device, const QueryShape& shape) {
    BackwardArguments& a = arguments_;
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
    if (a.bias_chunks > 1) parts_ = pieces_.take(elements * a.bias_chunks);
  }

  Choice choice_;
  BackwardArguments arguments_{};
  Pieces pieces_;
  bool adds_queries_ = false;
  std::int64_t lse_ = 0, delta_ = 0, sums_ = 0, parts_ = 0;
};

}  // namespace

std::optional<std::string> refuse_backward(const core::Problem& p) {
  if (std::max(p.head_dim, p.value_head_dim) > kBackwardHeadDims.back()) {
    return "fused takes head_dim and value_head_dim up to 256 backward; naive takes any";
  }
  // The smallest tiles there are.
  constexpr std::int64_t kTile = 32;
  const std::int64_t tiles =
      std::max(p.batch * p.key_heads * (p.key_length / kTile + 1), p.batch * p.query_heads * (p.query_length / kTile + 1));
  bool too_many = p.query_length > kMaxCount || p.key_length > kMaxCount || p.group() > kMaxCount || tiles > kMaxCount;
  if (p.grad_bias.present()) {
    too_many = too_many || p.batch * p.query_heads * (p.query_length / kTile + 1) > kMaxCount / (p.key_length / kTile + 1);
  }
  if (too_many) return "fused takes at most 1073741823 queries, keys, and tiles of 32 of them backward; naive takes more";
  return std::nullopt;
}

std::unique_ptr<core::Executable> plan_backward(const core::Problem& p, const dhyan_device_description& device) {
  return std::make_unique<Backward>(p, device);
}

}  // namespace dhyan::cuda::portable

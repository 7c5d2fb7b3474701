// SPDX-License-Identifier: Apache-2.0
#include "cuda/portable/forward_plan.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numbers>

#include "cuda/portable/combine.hpp"
#include "cuda/portable/device_limits.hpp"
#include "cuda/portable/forward.hpp"
#include "cuda/runtime/error.hpp"
#include "cuda/runtime/guard.hpp"
#include "cuda/runtime/launch.hpp"

namespace dhyan::cuda::portable {
namespace {

constexpr int kWholeChunk = 16;  // bytes that cp.async copies

bool aligned(const core::Problem& p) {
  return std::min({p.query.alignment, p.key.alignment, p.value.alignment, p.out.alignment}) >= kWholeChunk;
}

// Whether masks by position are all that happens to a score.
bool plain(const core::Problem& p) {
  return p.scale > 0 && p.softcap == 0 && !p.bias.present() && !p.mask.present() && !p.alibi_slopes.present() &&
         !p.has_dropout();
}

// Q is multiplied by it before the product, the rest of the scale comes after: no sum overflows that fits once it is scaled.
// Sums of f16 products always fit.
float early_scale(const core::Problem& p) {
  if (p.dtype == DHYAN_F16 || p.scale == 0 || std::abs(p.scale) >= 1) return 1;
  return std::ldexp(1.0F, std::max(std::ilogb(p.scale), std::numeric_limits<float>::min_exponent));
}

const ForwardKernels& kernels_of(dhyan_dtype dtype, std::size_t head_class) {
  static constexpr const ForwardKernels* kOf[2][kHeadDims.size()] = {
      {&forward_f16_64, &forward_f16_128, &forward_f16_256, &forward_f16_512},
      {&forward_bf16_64, &forward_bf16_128, &forward_bf16_256, &forward_bf16_512},
  };
  return *kOf[dtype == DHYAN_BF16][head_class];
}

constexpr const FloatForwardKernels* kFloatKernels[kFloatHeadDims.size()] = {&forward_f32_64, &forward_f32_128,
                                                                             &forward_f32_256};

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

struct Choice {
  ForwardShape shape;
  ForwardKernel kernel;
  bool plain;           // as the kernel sees it
  std::int64_t blocks;  // without splits
  int splits;
};

// Keys that the rows of one tile see, at most.
std::int64_t most_keys(const core::Problem& p, int rows) {
  std::int64_t keys = p.key_length;
  const std::int64_t right = p.causal != DHYAN_CAUSAL_OFF ? 0 : p.window_right;
  if (p.window_left >= 0 && right >= 0) keys = std::min(keys, p.window_left + right + rows);
  return keys;
}

// The first class that holds keys and values.
template <std::size_t kClasses>
std::size_t class_of(const std::array<int, kClasses>& head_dims, const core::Problem& p) {
  const std::int64_t widest = std::max(p.head_dim, p.value_head_dim);
  std::size_t head_class = 0;
  while (head_dims[head_class] < widest) ++head_class;
  return head_class;
}

Choice choose_f32(const core::Problem& p, const dhyan_device_description& device) {
  const std::size_t head_class = class_of(kFloatHeadDims, p);
  const FloatForwardKernels& all = *kFloatKernels[head_class];
  const int use = kFloatShapes[head_class][0].shared_bytes() <= shared_limit(device) ? 0 : 1;
  const ForwardShape& shape = kFloatShapes[head_class][use];
  const ForwardKernel kernel = (p.precision == DHYAN_PRECISION_TF32 ? all.tf32 : all.f32)[use];
  return {shape, kernel, plain(p), p.batch * p.key_heads * ceil_div(p.group() * p.query_length, shape.rows()), 1};
}

Choice choose_tiles(const core::Problem& p, const dhyan_device_description& device) {
  if (p.dtype == DHYAN_F32) return choose_f32(p, device);
  const std::size_t head_class = class_of(kHeadDims, p);
  const ForwardKernels& all = kernels_of(p.dtype, head_class);
  const bool is_plain = plain(p) && aligned(p) && all.plain[static_cast<int>(ForwardUse::small)] != nullptr;
  const std::int64_t rows = p.group() * p.query_length;
  const auto with = [&](ForwardUse use) {
    const int i = static_cast<int>(use);
    const ForwardShape& shape = kForwardShapes[head_class][i];
    return Choice{shape, (is_plain ? all.plain : all.general)[i], is_plain,
                  p.batch * p.key_heads * ceil_div(rows, shape.rows()), 1};
  };
  Choice choice = with(ForwardUse::small);
  if (const Choice few = with(ForwardUse::few_rows); few.kernel != nullptr && rows <= few.shape.rows()) {
    choice = few;
  } else if (const Choice large = with(ForwardUse::large); large.kernel != nullptr && large.blocks >= device.multiprocessors &&
                                                           large.shape.shared_bytes() <= shared_limit(device)) {
    choice = large;
  }
  return choice;
}

Choice choose(const core::Problem& p, const dhyan_device_description& device) {
  Choice choice = choose_tiles(p, device);
  // Splits fill a device that has fewer blocks than it can hold; each keeps a few tiles, or joining them costs more than it
  // gains.
  constexpr std::int64_t kLeastTiles = 2;
  const std::int64_t room = std::int64_t{device.multiprocessors} * choice.shape.blocks;
  const std::int64_t tiles = ceil_div(most_keys(p, choice.shape.rows()), choice.shape.keys);
  if (choice.blocks > 0 && choice.blocks * 2 <= room) {
    const std::int64_t splits = std::min({room / choice.blocks, tiles / kLeastTiles, std::int64_t{kMaxSplits}});
    choice.splits = static_cast<int>(std::max(splits, std::int64_t{1}));
  }
  return choice;
}

class Forward final : public core::Executable {
 public:
  Forward(const core::Problem& p, const dhyan_device_description& device)
      : choice_(choose(p, device)), early_(starts_early(device)) {
    ForwardArguments& a = arguments_;
    a.p = p;
    a.group = static_cast<int>(p.group());
    a.row_blocks = static_cast<int>(ceil_div(p.group() * p.query_length, choice_.shape.rows()));
    a.splits = choice_.splits;
    a.early = early_scale(p);
    a.factor = static_cast<float>(p.scale / a.early * (choice_.plain ? std::numbers::log2e : 1));
    a.kept = static_cast<float>(1 / (1 - p.dropout.probability));
    a.plain = choice_.plain;
    a.aligned = aligned(p);
    const DeviceGuard guard(p.device_index);
    check(cudaFuncSetAttribute(reinterpret_cast<const void*>(choice_.kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                               choice_.shape.shared_bytes()),
          kName);
    load_combine(p);
  }

  void run(const core::Buffers& buffers, void* scratch, void* on) const override {
    const core::Problem& p = arguments_.p;
    const DeviceGuard guard(p.device_index);
    auto* const stream = static_cast<cudaStream_t>(on);
    if (p.packed) blank(p, buffers, stream);
    if (choice_.blocks == 0) return;
    ForwardArguments a = arguments_;
    a.buffers = buffers;
    if (a.splits > 1) {
      a.part_lse = static_cast<float*>(scratch);
      a.part_out = a.part_lse + part_rows();
    }
    const dim3 grid(static_cast<unsigned>(choice_.blocks * a.splits));
    launch(kName, choice_.kernel, grid, dim3(static_cast<unsigned>(choice_.shape.threads())),
           static_cast<std::size_t>(choice_.shape.shared_bytes()), stream, a);
    if (a.splits > 1) combine(a, early_, stream);
  }

  std::size_t scratch_bytes() const override {
    if (arguments_.splits == 1) return 0;
    return static_cast<std::size_t>(part_rows() * (1 + arguments_.p.value_head_dim)) * sizeof(float);
  }

  std::string describe() const override {
    char text[160];
    const ForwardShape& s = choice_.shape;
    const int length =
        std::snprintf(text, sizeof text, "mma.sync, %s kernel of head_dim %d: tiles of %d rows and %d keys, %d warps",
                      choice_.plain ? "plain" : "general", s.head_dim, s.rows(), s.keys, s.warps());
    if (arguments_.splits > 1) {
      std::snprintf(text + length, sizeof text - static_cast<std::size_t>(length), ", keys split in %d", arguments_.splits);
    }
    return text;
  }

 private:
  static constexpr const char* kName = "fused forward";

  std::int64_t part_rows() const {
    const core::Problem& p = arguments_.p;
    return arguments_.splits * p.batch * p.query_heads * p.query_length;
  }

  Choice choice_;
  bool early_;
  ForwardArguments arguments_{};
};

}  // namespace

std::unique_ptr<core::Executable> plan_forward(const core::Problem& p, const dhyan_device_description& device) {
  return std::make_unique<Forward>(p, device);
}

}  // namespace dhyan::cuda::portable

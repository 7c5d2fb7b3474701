// SPDX-License-Identifier: Apache-2.0
#include "cuda/portable/forward_plan.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <numbers>

#include "cuda/portable/combine.hpp"
#include "cuda/portable/device_limits.hpp"
#include "cuda/portable/forward.hpp"
#include "cuda/portable/problem.hpp"
#include "cuda/runtime/error.hpp"
#include "cuda/runtime/guard.hpp"
#include "cuda/runtime/launch.hpp"

namespace dhyan::cuda::portable {
namespace {

bool aligned(const core::Problem& p) {
  return std::min({p.query.alignment, p.key.alignment, p.value.alignment, p.out.alignment}) >= kWholeChunk;
}

// What plain kernels do.
bool plain(const core::Problem& p) { return p.scale > 0 && masked_by_position_only(p); }

const ForwardKernels& kernels_of(dhyan_dtype dtype, std::size_t head_class) {
  static constexpr const ForwardKernels* kOf[2][kHeadDims.size()] = {
      {&forward_f16_64, &forward_f16_128, &forward_f16_256, &forward_f16_512},
      {&forward_bf16_64, &forward_bf16_128, &forward_bf16_256, &forward_bf16_512},
  };
  return *kOf[dtype == DHYAN_BF16][head_class];
}

constexpr const FloatForwardKernels* kFloatKernels[kFloatHeadDims.size()] = {&forward_f32_64, &forward_f32_128,
                                                                             &forward_f32_256};

struct Choice {
  ForwardShape shape;
  PlainKernel plain;      // or NULL, then
  GeneralKernel general;  // or NULL: there is no such kernel
  std::int64_t blocks;    // without splits
  int splits;

  bool fits(const dhyan_device_description& device) const {
    return (plain != nullptr || general != nullptr) && shape.shared_bytes() <= shared_limit(device);
  }
  const void* kernel() const {
    return plain != nullptr ? reinterpret_cast<const void*>(plain) : reinterpret_cast<const void*>(general);
  }
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

std::int64_t blocks_of(const core::Problem& p, const ForwardShape& shape) {
  return p.batch * p.key_heads * ceil_div(p.group() * p.query_length, shape.rows());
}

// Splits give every multiprocessor a block, as long as each keeps so many tiles: joining them costs more than fewer gain.
Choice split(Choice choice, std::int64_t least_tiles, const core::Problem& p, const dhyan_device_description& device) {
  const std::int64_t tiles = ceil_div(most_keys(p, choice.shape.rows()), choice.shape.keys);
  if (choice.blocks > 0) {
    const std::int64_t splits =
        std::min({device.multiprocessors / choice.blocks, tiles / least_tiles, std::int64_t{kMaxSplits}});
    choice.splits = static_cast<int>(std::max(splits, std::int64_t{1}));
  }
  return choice;
}

Choice choose_f32(const core::Problem& p, const dhyan_device_description& device) {
  const std::size_t head_class = class_of(kFloatHeadDims, p);
  const FloatForwardKernels& all = *kFloatKernels[head_class];
  const auto with = [&](FloatForwardUse use) {
    const int i = static_cast<int>(use);
    const ForwardShape& shape = kFloatShapes[head_class][i];
    return Choice{shape, nullptr, (p.precision == DHYAN_PRECISION_TF32 ? all.tf32 : all.f32)[i], blocks_of(p, shape), 1};
  };
  const Choice many = with(FloatForwardUse::many_rows);
  const Choice few = with(FloatForwardUse::few_rows);
  if (!many.fits(device)) return split(few, 2, p, device);
  // As measured on an H200 (f32.md).
  const bool small = many.blocks * 2 <= device.multiprocessors;
  const bool uneven = p.causal != DHYAN_CAUSAL_OFF && many.shape.head_dim == 128 && many.blocks > device.multiprocessors;
  const bool better = few.fits(device) && few.shape.key_warps > 1 && (small || uneven);
  return split(better ? few : many, 2, p, device);
}

Choice choose(const core::Problem& p, const dhyan_device_description& device) {
  if (p.dtype == DHYAN_F32) return choose_f32(p, device);
  const std::size_t head_class = class_of(kHeadDims, p);
  const ForwardKernels& all = kernels_of(p.dtype, head_class);
  const bool is_plain = plain(p) && aligned(p) && all.plain[static_cast<int>(ForwardUse::small)] != nullptr;
  const auto with = [&](ForwardUse use) {
    const int i = static_cast<int>(use);
    const ForwardShape& shape = kForwardShapes[head_class][i];
    Choice choice{shape, is_plain ? all.plain[i] : nullptr, is_plain ? nullptr : all.general[i], 0, 1};
    if (choice.kernel() != nullptr) choice.blocks = blocks_of(p, shape);
    return choice;
  };
  constexpr int kFewRows = 16;
  if (p.group() * p.query_length <= kFewRows) {
    if (const Choice many = with(ForwardUse::many_keys); many.fits(device)) return split(many, 1, p, device);
    if (const Choice few = with(ForwardUse::few_rows); few.fits(device)) return split(few, 1, p, device);
  }
  if (const Choice large = with(ForwardUse::large); large.fits(device) && large.blocks >= device.multiprocessors) return large;
  const auto [more_than, up_to] = kFewKeys[head_class];
  if (const Choice few = with(ForwardUse::few_keys);
      few.fits(device) && p.key_length > more_than && p.key_length <= up_to && few.blocks <= device.multiprocessors) {
    return few;
  }
  return split(with(ForwardUse::small), 8, p, device);
}

class Forward final : public core::Executable {
 public:
  Forward(const core::Problem& p, const dhyan_device_description& device)
      : p_(p), choice_(choose(p, device)), early_(starts_early(device)), arguments_(forward_arguments(p)) {
    arguments_.row_blocks = static_cast<int>(ceil_div(p.group() * p.query_length, choice_.shape.rows()));
    arguments_.splits = choice_.splits;
    arguments_.plain = choice_.plain != nullptr || (p.dtype == DHYAN_F32 && plain(p));
    if (arguments_.plain) arguments_.factor *= static_cast<float>(std::numbers::log2e);
    arguments_.aligned = aligned(p);
    const DeviceGuard guard(p.device_index);
    check(cudaFuncSetAttribute(choice_.kernel(), cudaFuncAttributeMaxDynamicSharedMemorySize, choice_.shape.shared_bytes()),
          kName);
    load_combine(p);
  }

  void run(const core::Buffers& buffers, void* scratch, void* on) const override {
    const DeviceGuard guard(p_.device_index);
    auto* const stream = static_cast<cudaStream_t>(on);
    if (p_.packed) blank(p_, buffers, stream);
    if (choice_.blocks == 0) return;
    ForwardArguments a = arguments_;
    bind(a, p_, buffers);
    if (a.splits > 1) {
      a.part_lse = static_cast<float*>(scratch);
      a.part_out = a.part_lse + padded_rows();
    }
    const dim3 grid(static_cast<unsigned>(choice_.blocks * a.splits));
    const dim3 block(static_cast<unsigned>(choice_.shape.threads()));
    const auto shared_bytes = static_cast<std::size_t>(choice_.shape.shared_bytes());
    if (choice_.plain != nullptr) {
      launch_dependent(early_, kName, choice_.plain, grid, block, shared_bytes, stream, a);
    } else {
      launch_dependent(early_, kName, choice_.general, grid, block, shared_bytes, stream, a, p_, buffers);
    }
    if (a.splits > 1) combine(a, early_, stream);
  }

  std::size_t scratch_bytes() const override {
    if (arguments_.splits == 1) return 0;
    return static_cast<std::size_t>(padded_rows() + part_rows() * p_.value_head_dim) * sizeof(float);
  }

  std::string describe() const override {
    char text[160];
    const ForwardShape& s = choice_.shape;
    const int length =
        std::snprintf(text, sizeof text, "mma.sync, %s kernel of head_dim %d: tiles of %d rows and %d keys, %d warps",
                      arguments_.plain ? "plain" : "general", s.head_dim, s.rows(), s.keys, s.warps());
    if (arguments_.splits > 1) {
      std::snprintf(text + length, sizeof text - static_cast<std::size_t>(length), ", keys split in %d", arguments_.splits);
    }
    return text;
  }

 private:
  static constexpr const char* kName = "fused forward";

  std::int64_t part_rows() const { return arguments_.splits * p_.batch * p_.query_heads * p_.query_length; }
  std::int64_t padded_rows() const { return ceil_div(part_rows(), 4) * 4; }  // outputs are read four at a time

  core::Problem p_;
  Choice choice_;
  bool early_;
  ForwardArguments arguments_;
};

}  // namespace

std::unique_ptr<core::Executable> plan_forward(const core::Problem& p, const dhyan_device_description& device) {
  return std::make_unique<Forward>(p, device);
}

}  // namespace dhyan::cuda::portable

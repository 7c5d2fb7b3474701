// SPDX-License-Identifier: Apache-2.0
#include "cudnn/cudnn.hpp"

#include <utility>

#include "core/convert.hpp"
#include "cuda/runtime/guard.hpp"
#include "cudnn/graph.hpp"
#include "cudnn/kernels.hpp"
#include "cudnn/library.hpp"
#include "cudnn/rules.hpp"

namespace dhyan::cudnn {
namespace {

std::int64_t elements(const Tensor& x) { return x.shape[0] * x.shape[1] * x.shape[2] * x.shape[3]; }

// Each tensor's rows that ragged sequences need offsets for.
struct Rows {
  Slot slot, offsets;
  const core::Operand core::Problem::*operand;
  const Tensor Description::*tensor;
  bool queries;
};
constexpr Rows kRows[] = {
    {kQuery, kQueryOffsets, &core::Problem::query, &Description::query, true},
    {kKey, kKeyOffsets, &core::Problem::key, &Description::key, false},
    {kValue, kValueOffsets, &core::Problem::value, &Description::value, false},
    {kOut, kOutOffsets, &core::Problem::out, &Description::out, true},
    {kGradOut, kGradOutOffsets, &core::Problem::grad_out, &Description::grad_out, true},
    {kGradQuery, kGradQueryOffsets, &core::Problem::grad_query, &Description::grad_query, true},
    {kGradKey, kGradKeyOffsets, &core::Problem::grad_key, &Description::grad_key, false},
    {kGradValue, kGradValueOffsets, &core::Problem::grad_value, &Description::grad_value, false},
};

// What scratch holds, in order; -1: not there.
class Memory {
 public:
  Memory(const core::Problem& p, const Description& d) {
    offsets_.fill(-1);
    if (d.lengths) {
      query_lengths = take(p.batch * std::int64_t{sizeof(std::int32_t)});
      key_lengths = take(p.batch * std::int64_t{sizeof(std::int32_t)});
    }
    const bool backward = p.direction == DHYAN_BACKWARD;
    for (const Rows& rows : kRows) {
      const Tensor& x = d.*rows.tensor;
      if (!x.present()) continue;
      if (d.ragged) offsets_[rows.offsets] = take((p.batch + 1) * std::int64_t{sizeof(std::int64_t)});
      const std::int64_t count =
          p.packed ? (rows.queries ? p.query_tokens : p.key_tokens) * x.shape[1] * x.shape[3] : elements(x);
      if (!(p.*rows.operand).present()) offsets_[rows.slot] = take(count * std::int64_t{sizeof(std::uint16_t)});
    }
    copies_stats = d.stats.present() && (p.packed || !lies_like(p.lse, d.stats) || (backward && has_infinite_lse(p)));
    if (copies_stats) stats = take(elements(d.stats) * std::int64_t{sizeof(float)});
    workspace = bytes_;
  }

  // Of a tensor that only scratch holds, or of offsets.
  std::int64_t at(Slot slot) const { return offsets_[slot]; }

  std::int64_t query_lengths = -1, key_lengths = -1, stats = -1, workspace = 0;
  bool copies_stats = false;

 private:
  static bool lies_like(const core::Operand& lse, const Tensor& stats) {
    for (std::size_t i = 0; i < 3; ++i) {
      if (stats.shape[i] > 1 && lse.strides[i] != stats.strides[i]) return false;
    }
    return true;
  }

  // cuDNN makes NaN of -inf.
  static bool has_infinite_lse(const core::Problem& p) { return p.bias.present() || may_have_empty_rows(p); }

  std::int64_t take(std::int64_t bytes) {
    const std::int64_t at = bytes_;
    constexpr auto alignment = static_cast<std::int64_t>(cuda::kScratchAlignment);
    bytes_ += (bytes + alignment - 1) / alignment * alignment;
    return at;
  }

  std::array<std::int64_t, kSlots> offsets_{};
  std::int64_t bytes_ = 0;
};

class Plan final : public core::Executable {
 public:
  Plan(const core::Problem& p, const Facts& facts) : p_(p), d_(cudnn::describe(p, facts)), memory_(p, d_) {
    const cuda::DeviceGuard guard(p_.device_index);
    graph_ = graph_of(d_);
    blanks_ = may_have_empty_rows(p_);
  }

  void run(const core::Buffers& buffers, void* scratch, void* stream) const override {
    const cuda::DeviceGuard guard(p_.device_index);
    auto* const base = static_cast<std::byte*>(scratch);
    Pointers pointers = bind(buffers, base);
    if (d_.lengths) write_lengths(p_, buffers, lengths_of(pointers), stream);
    const bool backward = p_.direction == DHYAN_BACKWARD;
    if (p_.packed) blank_gaps(p_, buffers, stream);
    if (memory_.copies_stats && backward) load_lse(p_, buffers, static_cast<float*>(pointers[kStats]), stream);
    graph_->run(pointers, base + memory_.workspace, stream);
    if (memory_.copies_stats && !backward) store_lse(p_, buffers, static_cast<const float*>(pointers[kStats]), stream);
    if (blanks_) blank_rows(p_, buffers, stream);
  }

  std::size_t scratch_bytes() const override { return static_cast<std::size_t>(memory_.workspace) + graph_->workspace_bytes(); }

  std::string describe() const override {
    return "cuDNN " + version_text(d_.version) + " engine " + graph_->plan() +
           (d_.ragged    ? ", ragged"
            : d_.lengths ? ", lengths"
                         : "");
  }

 private:
  Pointers bind(const core::Buffers& b, std::byte* scratch) const {
    Pointers pointers{};
    const auto input = [](const void* data) { return const_cast<void*>(data); };
    pointers[kQuery] = input(b.query);
    pointers[kKey] = input(b.key);
    pointers[kValue] = input(b.value);
    pointers[kOut] = b.out;
    pointers[kStats] = memory_.copies_stats ? scratch + memory_.stats : b.lse;
    pointers[kBias] = input(b.bias);
    pointers[kSink] = input(b.sink);
    pointers[kQueryLengths] = scratch + memory_.query_lengths;
    pointers[kKeyLengths] = scratch + memory_.key_lengths;
    pointers[kGradOut] = input(b.grad_out);
    pointers[kGradQuery] = b.grad_query;
    pointers[kGradKey] = b.grad_key;
    pointers[kGradValue] = b.grad_value;
    pointers[kGradBias] = b.grad_bias;
    pointers[kGradSink] = b.grad_sink;
    for (std::size_t slot = 0; slot < kSlots; ++slot) {
      if (const std::int64_t at = memory_.at(static_cast<Slot>(slot)); at >= 0) pointers[slot] = scratch + at;
    }
    return pointers;
  }

  Lengths lengths_of(const Pointers& pointers) const {
    Lengths lengths{static_cast<std::int32_t*>(pointers[kQueryLengths]), static_cast<std::int32_t*>(pointers[kKeyLengths]), {}};
    if (!d_.ragged) return lengths;
    static_assert(std::size(kRows) == kMaxOffsets);
    for (std::size_t i = 0; i < kMaxOffsets; ++i) {
      const Tensor& x = d_.*kRows[i].tensor;
      if (x.present())
        lengths.offsets[i] = {kRows[i].queries, x.strides[0], x.strides[2],
                              static_cast<std::int64_t*>(pointers[kRows[i].offsets])};
    }
    return lengths;
  }

  core::Problem p_;
  Description d_;
  Memory memory_;
  std::shared_ptr<const Graph> graph_;
  bool blanks_ = false;
};

std::string unavailable(const dhyan_device_description& device) {
  const std::string reason = cuda::refusal(device.device_index);
  return reason.empty() ? missing() : reason;
}

Facts facts_of(const dhyan_device_description& device) {
  return {device.compute_major, device.compute_minor, device.memory_bytes, version()};
}

std::optional<std::string> refuse(const core::Problem& p, const dhyan_device_description& device) {
  if (auto broken = refusal(p, facts_of(device))) return broken;
  const cuda::DeviceGuard guard(p.device_index);
  std::string answer = unsupported(cudnn::describe(p, facts_of(device)));
  if (!answer.empty()) return answer;
  return std::nullopt;
}

std::unique_ptr<core::Executable> plan(const core::Problem& p, const dhyan_device_description& device) {
  return std::make_unique<Plan>(p, facts_of(device));
}

}  // namespace

const core::ImplementationEntry entry{DHYAN_CUDNN, "cudnn", DHYAN_CUDA, unavailable, refuse, plan, true};

cuda::Library library() {
  if (!missing().empty()) return {"cuDNN", "", "", missing()};
  return {"cuDNN", version_text(version()), path(), ""};
}

void trim() { trim_graphs(); }

}  // namespace dhyan::cudnn

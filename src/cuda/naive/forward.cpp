// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <optional>

#include "core/early_scale.hpp"
#include "cuda/naive/kernels.hpp"
#include "cuda/naive/layout.hpp"
#include "cuda/naive/passes.hpp"
#include "cuda/runtime/cublaslt.hpp"
#include "cuda/runtime/guard.hpp"

namespace dhyan::cuda::naive {
namespace {

// What scratch holds, in order.
struct Memory {
  explicit Memory(const core::Problem& p)
      : query_width(padded(p, p.head_dim)),
        value_width(padded(p, p.value_head_dim)),
        copies_key(!in_place(p, p.key, p.head_dim, false)),  // scores of keys past a length are masked
        copies_value(!in_place(p, p.value, p.value_head_dim, true)) {
    const std::int64_t queries = p.batch * p.query_heads * p.query_length;
    const std::int64_t keys = p.batch * p.key_heads * p.key_length;
    Pieces pieces;
    scores = pieces.take(queries * score_stride(p), score_type(p));
    query = pieces.take(queries * query_width, p.dtype);
    out = pieces.take(queries * value_width, p.dtype);
    key = pieces.take(copies_key ? keys * query_width : 0, p.dtype);
    value = pieces.take(copies_value ? keys * value_width : 0, p.dtype);
    workspace = pieces.bytes();
  }

  std::int64_t query_width, value_width;
  bool copies_key, copies_value;
  std::int64_t scores, query, out, key, value, workspace;
};

class Forward final : public core::Executable {
 public:
  explicit Forward(const core::Problem& p) : p_(p), memory_(p), early_(core::early_scale(p)) {
    const DeviceGuard guard(p_.device_index);
    load(p_);
    if (!any_score(p_)) return;
    if (p_.head_dim > 0) scores_.emplace(rows_by_rows(p_, memory_.query_width, p_.key, memory_.copies_key));
    if (p_.value_head_dim > 0) outputs_.emplace(weights_by_rows(p_, memory_.value_width, p_.value, memory_.copies_value));
  }

  void run(const core::Buffers& buffers, void* scratch, void* on) const override {
    const DeviceGuard guard(p_.device_index);
    auto* const stream = static_cast<cudaStream_t>(on);
    auto* const base = static_cast<std::byte*>(scratch);
    const void* key = buffers.key;
    const void* value = buffers.value;
    if (p_.packed) scatter(p_, buffers, out_rows(p_, p_.out), nullptr, buffers.out, stream);
    gather(p_, buffers, query_rows(p_, p_.query), buffers.query, early_, base + memory_.query, stream);
    if (memory_.copies_key) {
      key = base + memory_.key;
      gather(p_, buffers, key_rows(p_, p_.key), buffers.key, 1, base + memory_.key, stream);
    }
    if (memory_.copies_value) {
      value = base + memory_.value;
      gather(p_, buffers, value_rows(p_, p_.value), buffers.value, 1, base + memory_.value, stream);
    }
    if (scores_) {
      scores_->run(p_.scale / early_, base + memory_.query, key, base + memory_.scores, base + memory_.workspace, stream);
    } else {
      clear(base + memory_.scores, memory_.query - memory_.scores, stream);
    }
    softmax(p_, buffers, base + memory_.scores, score_stride(p_), stream);
    if (outputs_) {
      outputs_->run(1, base + memory_.scores, value, base + memory_.out, base + memory_.workspace, stream);
    } else {
      clear(base + memory_.out, memory_.key - memory_.out, stream);
    }
    scatter(p_, buffers, out_rows(p_, p_.out), base + memory_.out, buffers.out, stream);
  }

  std::size_t scratch_bytes() const override {
    const std::size_t workspace =
        std::max(scores_ ? scores_->workspace_bytes() : 0, outputs_ ? outputs_->workspace_bytes() : 0);
    return static_cast<std::size_t>(memory_.workspace) + workspace;
  }

  std::string describe() const override {
    const char* copies = "keys and values where they lie";
    if (memory_.copies_key) copies = memory_.copies_value ? "keys and values copied" : "keys copied";
    if (!memory_.copies_key && memory_.copies_value) copies = "values copied";
    char text[160];
    std::snprintf(text, sizeof text, "matrix of scores in memory (%.1f MiB), cuBLASLt %s, %s", matrix_bytes(p_) / (1 << 20),
                  cublas_lt_version().c_str(), copies);
    return text;
  }

 private:
  core::Problem p_;
  Memory memory_;
  double early_;
  std::optional<Products> scores_, outputs_;
};

}  // namespace

Need forward_need(const core::Problem& p) {
  const std::int64_t widths = padded(p, p.head_dim) + padded(p, p.value_head_dim);
  return {matrix_bytes(p), copy_bytes(p, widths, widths)};
}

std::unique_ptr<core::Executable> plan_forward(const core::Problem& p) { return std::make_unique<Forward>(p); }

}  // namespace dhyan::cuda::naive

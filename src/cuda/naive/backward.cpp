// SPDX-License-Identifier: Apache-2.0
// With P = exp(logit - lse), D the dropout factors and delta = rowsum(dO o O) - dlse:
//   dV = (P o D)^T dO,  dlogit = P o (dO V^T o D - delta),  dscore = dlogit o softcap',  dQ = scale dscore K,
//   dK = scale dscore^T Q,  dbias = sum of dlogit,  dsink = -sum exp(sink - lse) delta.
#include <algorithm>
#include <array>
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

// Which steps the gradients that are asked for need.
bool needs_gradients(const core::Problem& p) { return p.grad_query.present() || p.grad_key.present() || p.grad_bias.present(); }
bool needs_scores(const core::Problem& p) { return needs_gradients(p) || p.grad_value.present(); }
bool needs_delta(const core::Problem& p) { return needs_gradients(p) || p.grad_sink.present(); }

// Whether grad_bias has an element for every score, so that nothing is summed.
bool bias_of_scores(const core::Problem& p) {
  return p.bias_shape == std::array<std::int64_t, 4>{p.batch, p.query_heads, p.query_length, p.key_length};
}

// What scratch holds, in order.
struct Memory {
  Memory(const core::Problem& p, std::int64_t bias_sums)
      : query_width(padded(p, p.head_dim)),
        value_width(padded(p, p.value_head_dim)),
        // A gradient of 0 does not silence a NaN among the keys; values make gradients only that nobody looks at.
        copies_key(!in_place(p, p.key, p.head_dim, p.grad_query.present())),
        copies_value(!in_place(p, p.value, p.value_head_dim, false)) {
    const std::int64_t queries = p.batch * p.query_heads * p.query_length;
    const std::int64_t keys = p.batch * p.key_heads * p.key_length;
    Pieces pieces;
    const auto take = [&](bool needed, std::int64_t elements, dhyan_dtype dtype) {
      return pieces.take(needed ? elements : 0, dtype);
    };
    const bool scores_too = needs_scores(p);
    const bool gradients_too = needs_gradients(p);
    scores = take(scores_too, queries * score_stride(p), score_type(p));
    gradients = take(gradients_too, queries * score_stride(p), score_type(p));
    // The results, also where no product writes them.
    grad_query = take(p.grad_query.present(), queries * query_width, p.dtype);
    grad_key = take(p.grad_key.present(), keys * query_width, p.dtype);
    grad_value = take(p.grad_value.present(), keys * value_width, p.dtype);
    query = take(scores_too, queries * query_width, p.dtype);
    grad_out = take(scores_too, queries * value_width, p.dtype);
    key = take(scores_too && copies_key, keys * query_width, p.dtype);
    value = take(gradients_too && copies_value, keys * value_width, p.dtype);
    delta = take(needs_delta(p), queries, score_type(p));
    bias = pieces.take(bias_sums, DHYAN_F64);
    workspace = pieces.bytes();
  }

  std::int64_t query_width, value_width;
  bool copies_key, copies_value;
  std::int64_t scores, gradients, grad_query, grad_key, grad_value, query, grad_out, key, value, delta, bias, workspace;
};

class Backward final : public core::Executable {
 public:
  explicit Backward(const core::Problem& p)
      : p_(p),
        sums_(p),
        sums_bias_(p.grad_bias.present() && !bias_of_scores(p)),
        memory_(p, sums_bias_ ? sums_.partial() : 0),
        early_(core::early_scale(p)) {
    const DeviceGuard guard(p_.device_index);
    load(p_);
    load_backward(p_);
    if (!any_score(p_)) return;
    if (p_.head_dim > 0) {
      if (needs_scores(p_)) scores_.emplace(rows_by_rows(p_, memory_.query_width, p_.key, memory_.copies_key));
      if (p_.grad_query.present()) grad_query_.emplace(weights_by_rows(p_, memory_.query_width, p_.key, memory_.copies_key));
      if (p_.grad_key.present()) grad_key_.emplace(weights_transposed_by_rows(p_, memory_.query_width));
    }
    if (p_.value_head_dim > 0) {
      if (needs_gradients(p_)) gradients_.emplace(rows_by_rows(p_, memory_.value_width, p_.value, memory_.copies_value));
      if (p_.grad_value.present()) grad_value_.emplace(weights_transposed_by_rows(p_, memory_.value_width));
    }
  }

  void run(const core::Buffers& buffers, void* scratch, void* on) const override {
    const DeviceGuard guard(p_.device_index);
    const Run run{buffers, static_cast<std::byte*>(scratch), static_cast<cudaStream_t>(on)};
    if (needs_delta(p_)) delta(p_, buffers, run.at(memory_.delta), run.stream);
    if (p_.grad_sink.present()) sum_sink(p_, buffers, run.at(memory_.delta), run.stream);
    if (!needs_scores(p_)) return;
    multiply_rows(run);
    const Matrices matrices{run.at(memory_.scores), needs_gradients(p_) ? run.at(memory_.gradients) : nullptr, score_stride(p_),
                            run.at(memory_.delta)};
    if (sums_bias_) {
      sum_bias(p_, buffers, matrices, sums_, reinterpret_cast<double*>(run.at(memory_.bias)), run.stream);
    }
    gradient(p_, buffers, matrices, p_.grad_bias.present() && !sums_bias_, run.stream);
    multiply_weights(run);
  }

  std::size_t scratch_bytes() const override {
    std::size_t workspace = 0;
    for (const auto* products : {&scores_, &gradients_, &grad_query_, &grad_key_, &grad_value_}) {
      if (*products) workspace = std::max(workspace, (*products)->workspace_bytes());
    }
    return static_cast<std::size_t>(memory_.workspace) + workspace;
  }

  std::string describe() const override {
    char text[160];
    std::snprintf(text, sizeof text, "matrices of weights and their gradients in memory (%.1f MiB), cuBLASLt %s",
                  backward_need(p_).matrices / (1 << 20), cublas_lt_version().c_str());
    return text;
  }

 private:
  struct Run {
    const core::Buffers& buffers;
    std::byte* scratch;
    cudaStream_t stream;
    std::byte* at(std::int64_t piece) const { return scratch + piece; }
  };

  // scores = scale Q K^T and gradients = dO V^T.
  void multiply_rows(const Run& run) const {
    const core::Buffers& buffers = run.buffers;
    gather(p_, buffers, query_rows(p_, p_.query), buffers.query, early_, run.at(memory_.query), run.stream);
    gather(p_, buffers, out_rows(p_, p_.grad_out), buffers.grad_out, 1, run.at(memory_.grad_out), run.stream);
    if (memory_.copies_key) gather(p_, buffers, key_rows(p_, p_.key), buffers.key, 1, run.at(memory_.key), run.stream);
    product(scores_, p_.scale / early_, run.at(memory_.query), key_of(run), memory_.scores, memory_.gradients, run);
    if (!needs_gradients(p_)) return;
    const void* value = buffers.value;
    if (memory_.copies_value) {
      value = run.at(memory_.value);
      gather(p_, buffers, value_rows(p_, p_.value), buffers.value, 1, run.at(memory_.value), run.stream);
    }
    product(gradients_, 1, run.at(memory_.grad_out), value, memory_.gradients, memory_.grad_query, run);
  }

  // The gradients of query, key and value.
  void multiply_weights(const Run& run) const {
    product(grad_query_, p_.scale, run.at(memory_.gradients), key_of(run), memory_.grad_query, memory_.grad_key, run);
    product(grad_key_, p_.scale / early_, run.at(memory_.gradients), run.at(memory_.query), memory_.grad_key,
            memory_.grad_value, run);
    product(grad_value_, 1, run.at(memory_.scores), run.at(memory_.grad_out), memory_.grad_value, memory_.query, run);
    write(query_rows(p_, p_.grad_query), memory_.grad_query, run.buffers.grad_query, run);
    write(key_rows(p_, p_.grad_key), memory_.grad_key, run.buffers.grad_key, run);
    write(value_rows(p_, p_.grad_value), memory_.grad_value, run.buffers.grad_value, run);
  }

  const void* key_of(const Run& run) const { return memory_.copies_key ? run.at(memory_.key) : run.buffers.key; }

  // The piece of scratch up to `end` becomes a product, 0 when there is nothing to multiply.
  void product(const std::optional<Products>& products, double alpha, const void* left, const void* right, std::int64_t piece,
               std::int64_t end, const Run& run) const {
    if (products) {
      products->run(alpha, left, right, run.at(piece), run.at(memory_.workspace), run.stream);
    } else {
      clear(run.at(piece), end - piece, run.stream);
    }
  }

  void write(const Rows& rows, std::int64_t piece, void* to, const Run& run) const {
    if (!rows.operand.present()) return;
    if (p_.packed) scatter(p_, run.buffers, rows, nullptr, to, run.stream);
    scatter(p_, run.buffers, rows, run.at(piece), to, run.stream);
  }

  core::Problem p_;
  BiasSums sums_;
  bool sums_bias_;
  Memory memory_;
  double early_;
  std::optional<Products> scores_, gradients_, grad_query_, grad_key_, grad_value_;
};

}  // namespace

Need backward_need(const core::Problem& p) {
  const std::int64_t widths = padded(p, p.head_dim) + padded(p, p.value_head_dim);
  const double matrices = needs_gradients(p) ? 2 : needs_scores(p) ? 1 : 0;
  return {matrices * matrix_bytes(p), copy_bytes(p, 2 * widths, 2 * widths)};
}

std::unique_ptr<core::Executable> plan_backward(const core::Problem& p) { return std::make_unique<Backward>(p); }

}  // namespace dhyan::cuda::naive

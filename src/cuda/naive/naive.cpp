// SPDX-License-Identifier: Apache-2.0
#include "cuda/naive/naive.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>

#include "core/convert.hpp"
#include "core/error.hpp"
#include "cuda/device.hpp"
#include "cuda/naive/kernels.hpp"
#include "cuda/naive/matmul.hpp"
#include "cuda/runtime/cublaslt.hpp"
#include "cuda/runtime/guard.hpp"

namespace dhyan::cuda {
namespace {

using naive::Matmul;
using naive::MatmulShape;

constexpr std::int64_t kRowBytes = 16;       // of every operand of a product
constexpr std::int64_t kMaxBatches = 32768;  // in one call of cuBLASLt
constexpr double kShare = 0.8;               // of the device's memory
constexpr std::int64_t kScoreColumns = 16;   // columns of a row of scores are a multiple

std::int64_t round_up(std::int64_t x, std::int64_t multiple) { return (x + multiple - 1) / multiple * multiple; }

std::int64_t element_bytes(dhyan_dtype dtype) { return static_cast<std::int64_t>(core::size_of(dtype)); }

dhyan_dtype score_type(const core::Problem& p) { return p.dtype == DHYAN_F64 ? DHYAN_F64 : DHYAN_F32; }

std::int64_t padded(const core::Problem& p, std::int64_t width) { return round_up(width, kRowBytes / element_bytes(p.dtype)); }

double matrix_bytes(const core::Problem& p) {
  return static_cast<double>(element_bytes(score_type(p))) * static_cast<double>(p.batch) * static_cast<double>(p.query_heads) *
         static_cast<double>(p.query_length) * static_cast<double>(round_up(p.key_length, kScoreColumns));
}

// At most what the copies of rows take; a double, since the number may be any.
double copy_bytes(const core::Problem& p) {
  const auto width = static_cast<double>(padded(p, p.head_dim) + padded(p, p.value_head_dim));
  const double rows = static_cast<double>(p.query_heads) * static_cast<double>(p.query_length) +
                      static_cast<double>(p.key_heads) * static_cast<double>(p.key_length);
  return static_cast<double>(element_bytes(p.dtype)) * static_cast<double>(p.batch) * rows * width;
}

// Whether cuBLASLt can read rows of keys or values where they lie. Rows past a key length may hold anything: scores of such
// keys are masked, but a weight of 0 does not silence a NaN among the values.
bool in_place(const core::Problem& p, const core::Operand& x, std::int64_t width, bool values) {
  const std::int64_t element = element_bytes(p.dtype);
  const auto aligned = [&](std::int64_t stride) { return stride * element % kRowBytes == 0; };
  return !p.packed && !(values && p.key_lengths.present()) && width == padded(p, width) && x.alignment >= kRowBytes &&
         aligned(x.strides[0]) && aligned(x.strides[1]) && aligned(x.strides[2]) && x.strides[1] >= width;
}

// One side of a batched product over all (batch, key head): where the operand of an entry begins.
struct Side {
  std::int64_t batch, head;  // strides in elements
};

// All products of one step. Entries that one stride reaches go into one call, the rest into several.
class Products {
 public:
  Products(MatmulShape shape, const core::Problem& p, Side left, Side right, Side result, int device)
      : sides_{left, right, result},
        element_{element_bytes(shape.input), element_bytes(shape.input), element_bytes(shape.output)} {
    const auto whole = [&](const Side& side) { return side.batch == side.head * p.key_heads; };
    if (p.batch == 1 || p.key_heads == 1 || (whole(left) && whole(right) && whole(result))) {
      inner_ = p.batch * p.key_heads;
      over_heads_ = p.key_heads > 1;
    } else {
      over_heads_ = p.key_heads >= p.batch;
      inner_ = over_heads_ ? p.key_heads : p.batch;
      outer_ = over_heads_ ? p.batch : p.key_heads;
    }
    shape.left_batch = inner_stride(0);
    shape.right_batch = inner_stride(1);
    shape.result_batch = inner_stride(2);
    shape.batches = static_cast<std::int32_t>(std::min(inner_, kMaxBatches));
    full_.emplace(shape, device);
    if (inner_ > kMaxBatches && inner_ % kMaxBatches != 0) {
      shape.batches = static_cast<std::int32_t>(inner_ % kMaxBatches);
      rest_.emplace(shape, device);
    }
  }

  std::size_t workspace_bytes() const {
    return std::max(full_->workspace_bytes(), rest_ ? rest_->workspace_bytes() : std::size_t{0});
  }

  void run(double alpha, const void* left, const void* right, void* result, void* workspace, cudaStream_t stream) const {
    for (std::int64_t o = 0; o < outer_; ++o) {
      for (std::int64_t i = 0; i < inner_; i += kMaxBatches) {
        const Matmul& matmul = rest_ && inner_ - i < kMaxBatches ? *rest_ : *full_;
        const auto at = [&](int side, const void* data) {
          return static_cast<const std::byte*>(data) + (o * outer_stride(side) + i * inner_stride(side)) * element_[side];
        };
        matmul.run(alpha, at(0, left), at(1, right), const_cast<std::byte*>(at(2, result)), workspace, stream);
      }
    }
  }

 private:
  std::int64_t inner_stride(int side) const { return over_heads_ ? sides_[side].head : sides_[side].batch; }
  std::int64_t outer_stride(int side) const { return over_heads_ ? sides_[side].batch : sides_[side].head; }

  Side sides_[3];
  std::int64_t element_[3];
  std::int64_t inner_ = 1, outer_ = 1;
  bool over_heads_ = true;
  std::optional<Matmul> full_, rest_;
};

// Q is scaled by a power of two before the product and the rest of the scale comes after it: no sum overflows that fits once it
// is scaled. Sums of f16 products always fit.
double early_scale(const core::Problem& p) {
  if (p.dtype == DHYAN_F16 || p.scale == 0 || std::abs(p.scale) >= 1) return 1;
  const int least = p.dtype == DHYAN_F64 ? std::numeric_limits<double>::min_exponent : std::numeric_limits<float>::min_exponent;
  return std::ldexp(1.0, std::max(std::ilogb(p.scale), least));
}

// What scratch holds, in order.
struct Memory {
  explicit Memory(const core::Problem& p)
      : stride(round_up(p.key_length, kScoreColumns)),
        query_width(padded(p, p.head_dim)),
        value_width(padded(p, p.value_head_dim)),
        copies_key(!in_place(p, p.key, p.head_dim, false)),
        copies_value(!in_place(p, p.value, p.value_head_dim, true)) {
    const auto take = [&](std::int64_t count, std::int64_t size) {
      const std::int64_t at = bytes;
      bytes += round_up(count * size, static_cast<std::int64_t>(kScratchAlignment));
      return at;
    };
    const std::int64_t element = element_bytes(p.dtype);
    const std::int64_t queries = p.batch * p.query_heads * p.query_length;
    const std::int64_t keys = p.batch * p.key_heads * p.key_length;
    scores = take(queries * stride, element_bytes(score_type(p)));
    query = take(queries * query_width, element);
    out = take(queries * value_width, element);
    key = take(copies_key ? keys * query_width : 0, element);
    value = take(copies_value ? keys * value_width : 0, element);
    workspace = bytes;
  }

  std::int64_t stride;  // of a row of scores
  std::int64_t query_width, value_width;
  bool copies_key, copies_value;
  std::int64_t scores = 0, query = 0, out = 0, key = 0, value = 0, workspace = 0;
  std::int64_t bytes = 0;
};

class Naive final : public core::Executable {
 public:
  explicit Naive(const core::Problem& p) : p_(p), memory_(p), early_(early_scale(p)) {
    const DeviceGuard guard(p_.device_index);
    naive::load(p_.dtype);
    if (!any_product()) return;
    const std::int64_t rows = p_.group() * p_.query_length;
    const std::int64_t weight_stride = memory_.stride * element_bytes(score_type(p_)) / element_bytes(p_.dtype);
    const auto dense = [&](std::int64_t block) { return Side{block * p_.key_heads, block}; };
    const auto there = [](const core::Operand& x) { return Side{x.strides[0], x.strides[2]}; };
    const bool tf32 = p_.precision == DHYAN_PRECISION_TF32;
    if (p_.head_dim > 0) {
      const std::int64_t width = memory_.query_width;
      const std::int64_t key_stride = memory_.copies_key ? width : p_.key.strides[1];
      scores_.emplace(MatmulShape{true, p_.dtype, score_type(p_), tf32, rows, p_.key_length, width, width, key_stride,
                                  memory_.stride, 1, 0, 0, 0},
                      p_, dense(rows * width), memory_.copies_key ? dense(p_.key_length * width) : there(p_.key),
                      dense(rows * memory_.stride), p_.device_index);
    }
    if (p_.value_head_dim > 0) {
      const std::int64_t width = memory_.value_width;
      const std::int64_t value_stride = memory_.copies_value ? width : p_.value.strides[1];
      outputs_.emplace(MatmulShape{false, p_.dtype, p_.dtype, tf32, rows, width, p_.key_length, weight_stride, value_stride,
                                   width, 1, 0, 0, 0},
                       p_, dense(rows * weight_stride), memory_.copies_value ? dense(p_.key_length * width) : there(p_.value),
                       dense(rows * width), p_.device_index);
    }
  }

  void run(const core::Buffers& buffers, void* scratch, void* on) const override {
    const DeviceGuard guard(p_.device_index);
    auto* const stream = static_cast<cudaStream_t>(on);
    auto* const base = static_cast<std::byte*>(scratch);
    if (p_.packed) naive::blank(p_, buffers, stream);
    const void* key = buffers.key;
    const void* value = buffers.value;
    naive::gather(p_, buffers,
                  {true, p_.query, buffers.query, p_.query_heads, p_.query_length, p_.head_dim, memory_.query_width, early_,
                   base + memory_.query},
                  stream);
    if (memory_.copies_key) {
      key = base + memory_.key;
      naive::gather(
          p_, buffers,
          {false, p_.key, buffers.key, p_.key_heads, p_.key_length, p_.head_dim, memory_.query_width, 1, base + memory_.key},
          stream);
    }
    if (memory_.copies_value) {
      value = base + memory_.value;
      naive::gather(p_, buffers,
                    {false, p_.value, buffers.value, p_.key_heads, p_.key_length, p_.value_head_dim, memory_.value_width, 1,
                     base + memory_.value},
                    stream);
    }
    if (scores_) {
      scores_->run(p_.scale / early_, base + memory_.query, key, base + memory_.scores, base + memory_.workspace, stream);
    } else {
      clear(base + memory_.scores, memory_.query - memory_.scores, stream);
    }
    naive::softmax(p_, buffers, base + memory_.scores, memory_.stride, stream);
    if (outputs_) {
      outputs_->run(1, base + memory_.scores, value, base + memory_.out, base + memory_.workspace, stream);
    } else {
      clear(base + memory_.out, memory_.key - memory_.out, stream);
    }
    naive::scatter(p_, buffers, base + memory_.out, memory_.value_width, stream);
  }

  std::size_t scratch_bytes() const override {
    const std::size_t workspace =
        std::max(scores_ ? scores_->workspace_bytes() : 0, outputs_ ? outputs_->workspace_bytes() : 0);
    return static_cast<std::size_t>(memory_.bytes) + workspace;
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
  static void clear(void* data, std::int64_t bytes, cudaStream_t stream) {
    if (bytes > 0) check(cudaMemsetAsync(data, 0, static_cast<std::size_t>(bytes), stream), "clearing scratch");
  }

  // No score and no row: only blank rows and lse are left to write.
  bool any_product() const { return p_.batch > 0 && p_.query_heads > 0 && p_.query_length > 0 && p_.key_length > 0; }

  core::Problem p_;
  Memory memory_;
  double early_;
  std::optional<Products> scores_, outputs_;
};

std::string unavailable(const dhyan_device_description& device) {
  const std::string reason = refusal(device.device_index);
  return reason.empty() ? cublas_lt_missing() : reason;
}

std::optional<std::string> refuse(const core::Problem& p, const dhyan_device_description& device) {
  if (p.direction != DHYAN_FORWARD) return "naive computes the forward pass only on a CUDA device so far";
  constexpr std::int64_t longest = std::numeric_limits<std::int32_t>::max();
  if (p.group() * p.query_length > longest || p.key_length > longest) {
    return "naive takes at most 2147483647 keys and queries of all heads that share a key head";
  }
  const double bytes = matrix_bytes(p) + copy_bytes(p);
  if (bytes > kShare * static_cast<double>(device.memory_bytes)) {
    char sentence[256];
    std::snprintf(sentence, sizeof sentence,
                  "naive needs %.0f bytes of scratch, %.0f of them for its matrix of scores; that is more than 80 %% of the "
                  "device's %lld",
                  bytes, matrix_bytes(p), static_cast<long long>(device.memory_bytes));
    return sentence;
  }
  return std::nullopt;
}

std::unique_ptr<core::Executable> plan(const core::Problem& p, const dhyan_device_description&) {
  return std::make_unique<Naive>(p);
}

}  // namespace

const core::ImplementationEntry naive_entry{DHYAN_NAIVE, "naive", DHYAN_CUDA, unavailable, refuse, plan};

}  // namespace dhyan::cuda

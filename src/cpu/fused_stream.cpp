// SPDX-License-Identifier: Apache-2.0
// Fused forward for a few queries, as in decoding: keys and values are read once, in the order of memory, and never packed.
// The keys are cut into splits by a rule that knows the problem only; a second pass joins their partial results in order.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "core/convert.hpp"
#include "core/parallel.hpp"
#include "cpu/fused_forward.hpp"
#include "cpu/logits.hpp"
#include "cpu/stream.hpp"
#include "cpu/target.hpp"

namespace dhyan::cpu {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

constexpr std::int64_t kBlock = 256;           // keys between two steps of the softmax
constexpr std::int64_t kTokens = kStreamKeys;  // keys of one head before the next head's
constexpr std::int64_t kTaskRows = 256;        // queries of all heads of a task, about
constexpr std::int64_t kTasks = 128;           // wanted in all
constexpr std::int64_t kPartialBytes = 4 << 20;
constexpr std::int64_t kScoreStride = kBlock + 16;

const StreamKernels& kernels_for(const core::Problem& p) {
  const StreamKernels* dot = p.dtype == DHYAN_BF16 ? bf16_dot_stream_kernels() : nullptr;
  return dot ? *dot : stream_kernels_on(highway_targets());
}

class FusedStream final : public core::Executable {
 public:
  explicit FusedStream(const core::Problem& problem);

  void run(const core::Buffers& buffers, void* scratch, void* stream) const override;
  std::size_t scratch_bytes() const override { return partial_bytes_ + worker_bytes_ * static_cast<std::size_t>(workers_); }
  std::string describe() const override;

 private:
  struct Task;

  void run_task(const core::Buffers& buffers, std::int64_t index, std::byte* scratch, std::byte* partials) const;
  void load_queries(const Task& task) const;
  void meet(const Task& task, std::int64_t begin, std::int64_t end) const;
  void join(const core::Buffers& buffers, std::int64_t b, std::int64_t n, std::int64_t t, std::byte* partials) const;
  float* partial(std::byte* partials, std::int64_t b, std::int64_t n, std::int64_t t, std::int64_t split) const;

  core::Problem problem_;
  const SoftmaxKernels& softmax_;
  const StreamKernels& stream_;
  Scale scale_;
  WeightForm form_;
  bool has_terms_;
  float exponent_factor_;    // as in the tiled driver
  std::int64_t task_heads_;  // key heads of a task
  std::int64_t head_blocks_, splits_, split_keys_;
  int workers_;
  std::int64_t rows_;  // queries that share a key: group * T
  std::int64_t query_stride_, sum_stride_, partial_stride_;
  Piece queries_, scores_, sums_, highest_, totals_, rescale_;
  std::size_t partial_bytes_ = 0, worker_bytes_ = 0;
};

struct FusedStream::Task {
  const core::Buffers& buffers;
  std::byte* scratch;
  std::int64_t b, first_head, heads;  // key heads
  core::Sequence sequence;
  int rows;  // of each key head
};

FusedStream::FusedStream(const core::Problem& p)
    : problem_(p),
      softmax_(softmax_kernels_on(highway_targets())),
      stream_(kernels_for(p)),
      scale_(split_scale(p.scale, stream_.operand)),
      form_(weight_form(p.dtype, DHYAN_F32)),
      has_terms_(has_logit_terms(p)),
      exponent_factor_(static_cast<float>(std::numbers::log2e * (has_terms_ ? 1 : scale_.scores))),
      rows_(p.group() * p.query_length),
      query_stride_(round_up(p.head_dim, 16)),
      sum_stride_(round_up(p.value_head_dim, 16)),
      partial_stride_(sum_stride_ + 16) {
  // Heads whose rows alternate in memory are read together.
  const bool alternate = p.key.strides[1] > p.key.strides[2] && p.value.strides[1] > p.value.strides[2];
  task_heads_ = alternate ? std::clamp<std::int64_t>(kTaskRows / rows_, 1, p.key_heads) : 1;
  head_blocks_ = ceil_div(p.key_heads, task_heads_);

  const std::int64_t sides = p.batch * head_blocks_;
  const std::int64_t partial_row_bytes = p.batch * p.query_heads * p.query_length * partial_stride_ * 4;
  const std::int64_t wanted = std::min(ceil_div(kTasks, sides), kPartialBytes / partial_row_bytes);
  splits_ = std::clamp<std::int64_t>(ceil_div(p.key_length, kBlock), 1, std::max<std::int64_t>(1, wanted));
  split_keys_ = round_up(std::max<std::int64_t>(1, ceil_div(p.key_length, splits_)), kTokens);
  splits_ = std::max<std::int64_t>(1, ceil_div(p.key_length, split_keys_));
  if (splits_ > 1) partial_bytes_ = static_cast<std::size_t>(splits_ * partial_row_bytes);

  const std::int64_t rows = task_heads_ * rows_;
  const auto take = [this](Piece& piece, std::int64_t floats) {
    piece.offset = worker_bytes_;
    worker_bytes_ += static_cast<std::size_t>(round_up(floats * 4, 64));
  };
  take(queries_, rows * query_stride_);
  take(scores_, rows * kScoreStride);
  take(sums_, rows * sum_stride_);
  take(highest_, rows);
  take(totals_, rows);
  take(rescale_, rows_);

  constexpr double kWorthAThread = 1 << 18;  // bytes
  const double bytes = static_cast<double>(core::size_of(p.dtype)) * static_cast<double>(p.batch * p.key_heads) *
                       static_cast<double>(p.key_length) * static_cast<double>(p.head_dim + p.value_head_dim);
  const double useful = std::min(bytes / kWorthAThread, static_cast<double>(sides * splits_));
  workers_ = static_cast<int>(std::clamp(useful, 1.0, static_cast<double>(std::max(1, p.threads))));
}

std::string FusedStream::describe() const {
  return std::string("online softmax on ") + stream_.name + ", keys and values read once in " + std::to_string(splits_) +
         (splits_ == 1 ? " split" : " splits") + " of " + std::to_string(split_keys_) + " keys, on " +
         std::to_string(workers_) + (workers_ == 1 ? " thread" : " threads");
}

void FusedStream::run(const core::Buffers& buffers, void* scratch, void*) const {
  if (problem_.packed) blank_gaps(problem_, buffers);
  auto* const partials = static_cast<std::byte*>(scratch);
  core::parallel_for(problem_.batch * head_blocks_ * splits_, workers_, [&](std::int64_t task, int worker) {
    run_task(buffers, task, partials + partial_bytes_ + worker_bytes_ * static_cast<std::size_t>(worker), partials);
  });
  if (splits_ == 1) return;
  core::parallel_for(problem_.batch * problem_.query_heads, workers_, [&](std::int64_t index, int) {
    for (std::int64_t t = 0; t < problem_.query_length; ++t) {
      join(buffers, index / problem_.query_heads, index % problem_.query_heads, t, partials);
    }
  });
}

// A row's sums in one split, then its highest logit and its total.
float* FusedStream::partial(std::byte* partials, std::int64_t b, std::int64_t n, std::int64_t t, std::int64_t split) const {
  const std::int64_t row = ((b * problem_.query_heads + n) * problem_.query_length + t) * splits_ + split;
  return reinterpret_cast<float*>(partials) + row * partial_stride_;
}

void FusedStream::run_task(const core::Buffers& buffers, std::int64_t index, std::byte* scratch, std::byte* partials) const {
  const core::Problem& p = problem_;
  const std::int64_t split = index % splits_;
  const std::int64_t first_head = index / splits_ % head_blocks_ * task_heads_;
  const std::int64_t b = index / splits_ / head_blocks_;
  Task task{buffers, scratch, b, first_head, std::min(task_heads_, p.key_heads - first_head), core::sequence(p, buffers, b), 0};
  const std::int64_t queries = task.sequence.query_count;
  task.rows = static_cast<int>(p.group() * queries);
  if (splits_ == 1 && !p.packed) {
    for (std::int64_t t = queries; t < p.query_length; ++t) {
      for (std::int64_t n = 0; n < task.heads * p.group(); ++n) blank_row(p, buffers, b, first_head * p.group() + n, t);
    }
  }
  if (queries == 0) return;

  float* const sums = sums_.in<float>(scratch);
  float* const highest = highest_.in<float>(scratch);
  float* const totals = totals_.in<float>(scratch);
  const std::int64_t rows = task.heads * task.rows;
  std::fill_n(sums, rows * sum_stride_, 0.0f);
  std::fill_n(highest, rows, kNone);
  std::fill_n(totals, rows, 0.0f);

  const core::KeyRange seen = keys_of(p, task.sequence, 0, queries);
  const std::int64_t begin = std::max(seen.begin, split * split_keys_);
  const std::int64_t end = std::min(seen.end, (split + 1) * split_keys_);
  if (begin < end) {
    load_queries(task);
    for (std::int64_t s = begin; s < end; s += kBlock) meet(task, s, std::min(end, s + kBlock));
  }

  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t n = (first_head + r / task.rows) * p.group() + r % task.rows % p.group();
    const std::int64_t t = r % task.rows / p.group();
    float* const row = sums + r * sum_stride_;
    if (splits_ == 1) {
      const RowSum sum{highest[r], totals[r], exponent_factor_};
      finish_row(p, buffers, softmax_, b, n, task.sequence.query_begin + t, sum, row);
    } else {
      float* const to = partial(partials, b, n, t, split);
      std::copy_n(row, sum_stride_, to);
      to[sum_stride_] = highest[r];
      to[sum_stride_ + 1] = totals[r];
    }
  }
}

// Row r of key head h: query head h * group + r % group, query r / group; scaled.
void FusedStream::load_queries(const Task& task) const {
  const core::Problem& p = problem_;
  const auto& q = p.query.strides;
  float* to = queries_.in<float>(task.scratch);
  for (std::int64_t h = task.first_head; h < task.first_head + task.heads; ++h) {
    for (std::int64_t r = 0; r < task.rows; ++r, to += query_stride_) {
      const std::int64_t n = h * p.group() + r % p.group(), token = task.sequence.query_begin + r / p.group();
      const void* from = core::advance(task.buffers.query, p.dtype, task.b * q[0] + token * q[1] + n * q[2]);
      stream_.widen({from, p.dtype, 0, scale_.query}, 0, static_cast<int>(p.head_dim), static_cast<int>(query_stride_), to);
    }
  }
}

// Keys [begin, end), at most kBlock of them.
void FusedStream::meet(const Task& task, std::int64_t begin, std::int64_t end) const {
  const core::Problem& p = problem_;
  const auto& k = p.key.strides;
  const auto& v = p.value.strides;
  float* const scores = scores_.in<float>(task.scratch);
  const float* const queries = queries_.in<float>(task.scratch);
  float* const sums = sums_.in<float>(task.scratch);
  for (std::int64_t s = begin; s < end; s += kTokens) {
    const int count = static_cast<int>(std::min(kTokens, end - s));
    const std::int64_t token = task.sequence.key_begin + s;
    for (std::int64_t h = 0; h < task.heads; ++h) {
      const void* key = core::advance(task.buffers.key, p.dtype, task.b * k[0] + token * k[1] + (task.first_head + h) * k[2]);
      stream_.scores(queries + h * task.rows * query_stride_, query_stride_, task.rows, {key, p.dtype, k[1]}, count,
                     static_cast<int>(p.head_dim), scores + h * task.rows * kScoreStride + (s - begin), kScoreStride);
    }
  }

  const int columns = static_cast<int>(end - begin);
  const bool changed = has_terms_ || partly_hidden(p, task.sequence, 0, task.sequence.query_count, {begin, end});
  for (std::int64_t h = 0; h < task.heads; ++h) {
    const std::int64_t row = h * task.rows;
    float* const rows = scores + row * kScoreStride;
    const Tile tile{p,
                    task.buffers,
                    task.sequence,
                    task.b,
                    (task.first_head + h) * p.group(),
                    0,
                    begin,
                    static_cast<int>(p.group()),
                    task.rows,
                    columns};
    if (has_terms_ && scale_.scores != 1) softmax_.scale(rows, kScoreStride, task.rows, columns, scale_.scores);
    if (changed) finish_logits(tile, rows, kScoreStride, nullptr);
    WeightRows weights{rows, kScoreStride, task.rows, columns, p.has_dropout() ? WeightForm::f32 : form_, nullptr, 0};
    float* const rescale = rescale_.in<float>(task.scratch);
    softmax_.tile(weights, exponent_factor_, highest_.in<float>(task.scratch) + row, totals_.in<float>(task.scratch) + row,
                  rescale);
    if (p.has_dropout()) {
      apply_dropout(tile, rows, kScoreStride);
      weights.form = form_;
      softmax_.round(weights);
    }
    softmax_.rescale(sums + row * sum_stride_, sum_stride_, task.rows, static_cast<int>(p.value_head_dim), rescale);
  }

  for (std::int64_t s = begin; s < end; s += kTokens) {
    const int count = static_cast<int>(std::min(kTokens, end - s));
    const std::int64_t token = task.sequence.key_begin + s;
    for (std::int64_t h = 0; h < task.heads; ++h) {
      const void* value =
          core::advance(task.buffers.value, p.dtype, task.b * v[0] + token * v[1] + (task.first_head + h) * v[2]);
      stream_.values(scores + h * task.rows * kScoreStride + (s - begin), kScoreStride, task.rows, {value, p.dtype, v[1]},
                     count, static_cast<int>(p.value_head_dim), sums + h * task.rows * sum_stride_, sum_stride_);
    }
  }
}

void FusedStream::join(const core::Buffers& buffers, std::int64_t b, std::int64_t n, std::int64_t t,
                       std::byte* partials) const {
  const core::Problem& p = problem_;
  const core::Sequence sequence = core::sequence(p, buffers, b);
  if (t >= sequence.query_count) {
    if (!p.packed) blank_row(p, buffers, b, n, t);
    return;
  }
  const float* const first = partial(partials, b, n, t, 0);
  float highest = kNone;
  for (std::int64_t i = 0; i < splits_; ++i) highest = std::max(highest, first[i * partial_stride_ + sum_stride_]);
  // The first split's row takes up the others.
  float* const row = partial(partials, b, n, t, 0);
  float total = 0;
  for (std::int64_t i = 0; i < splits_; ++i) {
    const float* const more = first + i * partial_stride_;
    const float factor = softmax_rescale(more[sum_stride_], highest, exponent_factor_);
    total += more[sum_stride_ + 1] * factor;
    if (i == 0) {
      softmax_.scale(row, 0, 1, static_cast<int>(sum_stride_), factor);
    } else {
      stream_.add(more, factor, static_cast<int>(sum_stride_), row);
    }
  }
  finish_row(p, buffers, softmax_, b, n, sequence.query_begin + t, {highest, total, exponent_factor_}, row);
}

}  // namespace

bool streams(const core::Problem& p) {
  return p.batch > 0 && p.key_heads > 0 && p.query_length > 0 && p.group() > 0 && p.query_length * p.group() <= kStreamRows;
}

std::unique_ptr<core::Executable> plan_fused_stream(const core::Problem& problem) {
  return std::make_unique<FusedStream>(problem);
}

}  // namespace dhyan::cpu

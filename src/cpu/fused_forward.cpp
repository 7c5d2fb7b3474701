// SPDX-License-Identifier: Apache-2.0
// Fused forward: tiled online softmax.
//
// A task is a block of queries of some heads that share one key head. It walks the keys block by block: packs a block of K and
// V once, then lets each of its strips (at most Tiling::rows query rows) meet it: scores, logits, weights, weighted values.
// What a row computes depends on the blocks and chunks of keys alone, never on the rows beside it, so tasks may be cut to suit
// the number of threads and the bits stay.
#include "cpu/fused_forward.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include "core/convert.hpp"
#include "core/parallel.hpp"
#include "core/sequence.hpp"
#include "cpu/choice.hpp"
#include "cpu/fused.hpp"
#include "cpu/logits.hpp"
#include "cpu/softmax.hpp"
#include "cpu/target.hpp"

namespace dhyan::cpu {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

struct Tiling {
  int rows;   // query rows of a strip
  int keys;   // of a block
  int chunk;  // keys of one product: what causal or a window hides of a block is skipped in these
  int task_rows;
};

// Blocks of K and V, the strip of scores and the task's sums share a core's L2.
struct TilingRow {
  int largest_dim;
  bool ranged;  // causal or a window
  Tiling tiling;
};
constexpr TilingRow kTilings[] = {
    {128, false, {48, 256, 256, 512}}, {128, true, {48, 256, 64, 512}},   {256, false, {48, 256, 256, 256}},
    {256, true, {48, 256, 128, 256}},  {512, false, {48, 128, 128, 192}}, {512, true, {48, 128, 128, 192}},
};

Tiling tiling_of(const core::Problem& p, const Engine& engine) {
  const bool ranged = p.causal != DHYAN_CAUSAL_OFF || p.window_left >= 0 || p.window_right >= 0;
  const std::int64_t dim = std::max(p.head_dim, p.value_head_dim);
  const TilingRow* row = kTilings;
  while (row + 1 != std::end(kTilings) && (dim > row->largest_dim || ranged != row->ranged)) ++row;
  Tiling tiling = row->tiling;
  tiling.rows = static_cast<int>(round_up(tiling.rows, engine.rows));
  return tiling;
}

// At most Tiling::rows query rows: `heads` heads from n on, `rows / heads` tokens from t on; row r is head n + r % heads.
struct Strip {
  std::int64_t n, t;
  int heads, rows;
  core::KeyRange keys;  // that some row sees
  Left query;
  bool touched;  // the sums hold something
};

class FusedForward final : public core::Executable {
 public:
  explicit FusedForward(const core::Problem& problem);

  void run(const core::Buffers& buffers, void* scratch, void* stream) const override;
  std::size_t scratch_bytes() const override { return worker_bytes_ * static_cast<std::size_t>(workers_); }
  std::string describe() const override;

 private:
  struct Task;

  void plan_tasks();
  void plan_scratch();
  void run_task(const core::Buffers& buffers, std::int64_t index, std::byte* scratch) const;
  int make_strips(Task& task, std::int64_t t_begin, std::int64_t t_end) const;
  void load_query(const Task& task, Strip& strip, int index) const;
  void pack_block(const Task& task, std::int64_t block, core::KeyRange keys) const;
  void meet(const Task& task, Strip& strip, int index, std::int64_t block) const;
  void finish(const Task& task, const Strip& strip, int index) const;

  core::Problem problem_;
  EngineChoice choice_;
  const Engine& engine_;
  const SoftmaxKernels& softmax_;
  Tiling tiling_;
  Scale scale_;
  WeightForm form_;
  float exponent_factor_;  // of scores as softmax sees them: log2(e), and the rest of scale where nothing comes between
  bool has_terms_;

  std::int64_t task_heads_, task_tokens_;            // heads and queries of a task
  std::int64_t head_blocks_, token_blocks_, tasks_;  // their number: per key head, per sequence, in all
  int strip_heads_;
  int workers_;

  std::int64_t score_stride_, weight_stride_, sum_stride_;
  std::size_t query_bytes_, key_bytes_, value_bytes_;  // of one packed strip, and of one packed chunk
  Piece strips_, query_, gathered_, key_, value_, scores_, weights_, left_, sums_, highest_, totals_, rescale_;
  std::size_t worker_bytes_ = 0;
};

struct FusedForward::Task {
  const core::Buffers& buffers;
  std::byte* scratch;
  std::int64_t b, key_head, first_head, heads;
  core::Sequence sequence;
};

FusedForward::FusedForward(const core::Problem& problem)
    : problem_(problem),
      choice_(choose_engine(problem.dtype)),
      engine_(*choice_.engine),
      softmax_(softmax_kernels_on(highway_targets())),
      tiling_(tiling_of(problem, engine_)),
      scale_(split_scale(problem.scale, engine_.operand)),
      form_(weight_form(problem.dtype, engine_.operand)),
      has_terms_(has_logit_terms(problem)) {
  constexpr double kLog2e = std::numbers::log2e;
  exponent_factor_ = static_cast<float>(has_terms_ ? kLog2e : kLog2e * scale_.scores);
  plan_tasks();
  plan_scratch();
}

void FusedForward::plan_tasks() {
  const core::Problem& p = problem_;
  const std::int64_t length = std::max<std::int64_t>(1, p.query_length);
  token_blocks_ = ceil_div(length, tiling_.task_rows);
  task_heads_ = std::clamp<std::int64_t>(tiling_.task_rows / length, 1, p.group());
  head_blocks_ = ceil_div(p.group(), task_heads_);
  const std::int64_t side = p.batch * p.key_heads * head_blocks_;

  // Enough tasks that the last ones to end leave few threads idle; a task costs what it must pack.
  const std::int64_t wanted = p.threads > 1 ? 4 * std::int64_t{p.threads} : 1;
  const std::int64_t most = ceil_div(length, 2 * tiling_.rows);
  if (side > 0) token_blocks_ = std::max(token_blocks_, std::min(most, ceil_div(wanted, side)));
  task_tokens_ = ceil_div(length, token_blocks_);
  if (task_tokens_ > tiling_.rows) task_tokens_ = round_up(task_tokens_, tiling_.rows);
  token_blocks_ = ceil_div(length, task_tokens_);
  tasks_ = side * token_blocks_;
  strip_heads_ = static_cast<int>(std::clamp<std::int64_t>(tiling_.rows / task_tokens_, 1, task_heads_));

  constexpr double kWorthAThread = 1 << 20;  // operations
  const double operations = 2.0 * static_cast<double>(p.batch * p.query_heads) * static_cast<double>(p.query_length) *
                            static_cast<double>(p.key_length) * static_cast<double>(p.head_dim + p.value_head_dim);
  const double useful = std::min(operations / kWorthAThread, static_cast<double>(std::max<std::int64_t>(tasks_, 1)));
  workers_ = static_cast<int>(std::clamp(useful, 1.0, static_cast<double>(std::max(1, p.threads))));
}

void FusedForward::plan_scratch() {
  const int h = static_cast<int>(problem_.head_dim), hv = static_cast<int>(problem_.value_head_dim);
  const int rows = tiling_.rows, chunk = tiling_.chunk;
  const std::int64_t chunks = tiling_.keys / chunk;
  const std::int64_t strips =
      strip_heads_ > 1 ? ceil_div(task_heads_, strip_heads_) : task_heads_ * ceil_div(task_tokens_, rows);
  const auto take = [this](Piece& piece, std::int64_t bytes) {
    piece.offset = worker_bytes_;
    worker_bytes_ += static_cast<std::size_t>(round_up(bytes, 64));
  };
  score_stride_ = tiling_.keys + 16;  // not a power of two: rows fall on different cache sets
  weight_stride_ = tiling_.keys + 32;
  sum_stride_ = round_up(hv, 16);
  query_bytes_ = static_cast<std::size_t>(round_up(static_cast<std::int64_t>(engine_.left_bytes(rows, h)), 64));
  key_bytes_ = static_cast<std::size_t>(round_up(static_cast<std::int64_t>(engine_.right_bytes(h, chunk)), 64));
  value_bytes_ = static_cast<std::size_t>(round_up(static_cast<std::int64_t>(engine_.right_bytes(chunk, hv)), 64));
  const std::int64_t element = static_cast<std::int64_t>(core::size_of(problem_.dtype));
  take(strips_, strips * static_cast<std::int64_t>(sizeof(Strip)));
  take(query_, strips * static_cast<std::int64_t>(query_bytes_));
  take(gathered_, strip_heads_ > 1 ? strips * rows * h * element : 0);
  take(key_, chunks * static_cast<std::int64_t>(key_bytes_));
  take(value_, chunks * static_cast<std::int64_t>(value_bytes_));
  take(scores_, rows * score_stride_ * 4);
  take(weights_, form_ == WeightForm::bf16 ? rows * weight_stride_ * 2 : 0);
  take(left_, static_cast<std::int64_t>(engine_.left_bytes(rows, chunk)));
  take(sums_, strips * rows * sum_stride_ * 4);
  take(highest_, strips * rows * 4);
  take(totals_, strips * rows * 4);
  take(rescale_, rows * 4);
}

std::string FusedForward::describe() const {
  return std::string("online softmax on ") + engine_.name + " (" + choice_.reason + "), tiles of " +
         std::to_string(tiling_.rows) + " queries by " + std::to_string(tiling_.keys) + " keys, " + std::to_string(tasks_) +
         " tasks on " + std::to_string(workers_) + (workers_ == 1 ? " thread" : " threads");
}

void FusedForward::run(const core::Buffers& buffers, void* scratch, void*) const {
  if (problem_.packed) blank_gaps(problem_, buffers);
  auto* const memory = static_cast<std::byte*>(scratch);
  core::parallel_for(tasks_, workers_, [&](std::int64_t task, int worker) {
    run_task(buffers, task, memory + worker_bytes_ * static_cast<std::size_t>(worker));
  });
}

void FusedForward::run_task(const core::Buffers& buffers, std::int64_t index, std::byte* scratch) const {
  const core::Problem& p = problem_;
  // Late queries first: with causal masking they take longest.
  const std::int64_t side = tasks_ / token_blocks_;
  const std::int64_t token_block = token_blocks_ - 1 - index / side;
  const std::int64_t head_block = index % side % head_blocks_;
  const std::int64_t key_head = index % side / head_blocks_ % p.key_heads;
  const std::int64_t b = index % side / head_blocks_ / p.key_heads;
  const std::int64_t first = head_block * task_heads_;
  Task task{buffers,
            scratch,
            b,
            key_head,
            key_head * p.group() + first,
            std::min(task_heads_, p.group() - first),
            core::sequence(p, buffers, b)};

  const std::int64_t t_begin = token_block * task_tokens_;
  const std::int64_t t_end = std::min(t_begin + task_tokens_, p.query_length);
  const std::int64_t t_held = std::min(t_end, task.sequence.query_count);
  if (!p.packed) {
    for (std::int64_t t = std::max(t_begin, t_held); t < t_end; ++t) {
      for (std::int64_t n = 0; n < task.heads; ++n) blank_row(p, buffers, b, task.first_head + n, t);
    }
  }
  if (t_begin >= t_held) return;

  const int strips = make_strips(task, t_begin, t_held);
  Strip* const strip = strips_.in<Strip>(scratch);
  const core::KeyRange keys = keys_of(p, task.sequence, t_begin, t_held);
  if (keys.begin < keys.end) {
    for (int i = 0; i < strips; ++i) load_query(task, strip[i], i);
    for (std::int64_t block = keys.begin / tiling_.keys * tiling_.keys; block < keys.end; block += tiling_.keys) {
      pack_block(task, block, keys);
      for (int i = 0; i < strips; ++i) meet(task, strip[i], i, block);
    }
  }
  if (engine_.release) engine_.release();
  for (int i = 0; i < strips; ++i) finish(task, strip[i], i);
}

int FusedForward::make_strips(Task& task, std::int64_t t_begin, std::int64_t t_end) const {
  Strip* const strip = strips_.in<Strip>(task.scratch);
  int count = 0;
  const std::int64_t tokens = strip_heads_ > 1 ? t_end - t_begin : tiling_.rows;
  for (std::int64_t n = 0; n < task.heads; n += strip_heads_) {
    const std::int64_t heads = std::min<std::int64_t>(strip_heads_, task.heads - n);
    for (std::int64_t t = t_begin; t < t_end; t += tokens) {
      const std::int64_t end = std::min(t + tokens, t_end);
      strip[count++] = {task.first_head + n,
                        t,
                        static_cast<int>(heads),
                        static_cast<int>(heads * (end - t)),
                        keys_of(problem_, task.sequence, t, end),
                        {},
                        false};
    }
  }
  const auto rows = static_cast<std::size_t>(count) * static_cast<std::size_t>(tiling_.rows);
  std::fill_n(highest_.in<float>(task.scratch), rows, kNone);
  std::fill_n(totals_.in<float>(task.scratch), rows, 0.0f);
  return count;
}

void FusedForward::load_query(const Task& task, Strip& strip, int index) const {
  const core::Problem& p = problem_;
  const auto& q = p.query.strides;
  const std::int64_t token = task.sequence.query_begin + strip.t;
  const void* first = core::advance(task.buffers.query, p.dtype, task.b * q[0] + token * q[1] + strip.n * q[2]);
  Source source{first, p.dtype, q[1], scale_.query};
  if (strip.heads > 1) {
    const std::int64_t h = p.head_dim;
    const std::size_t bytes = static_cast<std::size_t>(h) * core::size_of(p.dtype);
    std::byte* to = gathered_.in<std::byte>(task.scratch) + static_cast<std::size_t>(index * tiling_.rows) * bytes;
    source = {to, p.dtype, h, scale_.query};
    for (int r = 0; r < strip.rows; ++r, to += bytes) {
      std::memcpy(to, core::advance(first, p.dtype, r / strip.heads * q[1] + r % strip.heads * q[2]), bytes);
    }
  }
  std::byte* const storage = query_.in<std::byte>(task.scratch) + static_cast<std::size_t>(index) * query_bytes_;
  strip.query = engine_.left(source, strip.rows, static_cast<int>(p.head_dim), storage);
}

// Packs those chunks of a block that some strip sees.
void FusedForward::pack_block(const Task& task, std::int64_t block, core::KeyRange keys) const {
  const core::Problem& p = problem_;
  const int chunk = tiling_.chunk;
  const auto& k = p.key.strides;
  const auto& v = p.value.strides;
  for (int c = 0; c < tiling_.keys / chunk; ++c) {
    const std::int64_t s = block + std::int64_t{c} * chunk;
    if (s >= keys.end || s + chunk <= keys.begin) continue;
    const int count = static_cast<int>(std::min<std::int64_t>(chunk, task.sequence.key_count - s));
    const std::int64_t token = task.sequence.key_begin + s;
    const void* key = core::advance(task.buffers.key, p.dtype, task.b * k[0] + token * k[1] + task.key_head * k[2]);
    const void* value = core::advance(task.buffers.value, p.dtype, task.b * v[0] + token * v[1] + task.key_head * v[2]);
    engine_.right_transposed({key, p.dtype, k[1]}, static_cast<int>(p.head_dim), count,
                             key_.in<std::byte>(task.scratch) + static_cast<std::size_t>(c) * key_bytes_);
    engine_.right({value, p.dtype, v[1]}, count, static_cast<int>(p.value_head_dim),
                  value_.in<std::byte>(task.scratch) + static_cast<std::size_t>(c) * value_bytes_);
  }
}

void FusedForward::meet(const Task& task, Strip& strip, int index, std::int64_t block) const {
  const core::Problem& p = problem_;
  const int chunk = tiling_.chunk;
  const std::int64_t begin = std::max(strip.keys.begin, block), end = std::min(strip.keys.end, block + tiling_.keys);
  if (begin >= end) return;
  const int first = static_cast<int>((begin - block) / chunk), last = static_cast<int>(ceil_div(end - block, chunk));
  const std::int64_t s = block + std::int64_t{first} * chunk;
  const int columns = static_cast<int>(std::min(block + std::int64_t{last} * chunk, task.sequence.key_count) - s);
  const auto width = [&](int c) { return std::min(chunk, columns - (c - first) * chunk); };

  float* const scores = scores_.in<float>(task.scratch);
  const std::byte* const key = key_.in<std::byte>(task.scratch);
  for (int c = first; c < last; ++c) {
    engine_.multiply(strip.query, key + static_cast<std::size_t>(c) * key_bytes_, scores + (c - first) * chunk, score_stride_,
                     strip.rows, width(c), static_cast<int>(p.head_dim), false);
  }

  const Tile tile{p, task.buffers, task.sequence, task.b, strip.n, strip.t, s, strip.heads, strip.rows, columns};
  if (has_terms_ && scale_.scores != 1) softmax_.scale(scores, score_stride_, strip.rows, columns, scale_.scores);
  if (has_terms_ || partly_hidden(p, task.sequence, strip.t, strip.t + strip.rows / strip.heads, {s, s + columns})) {
    finish_logits(tile, scores, score_stride_, nullptr);
  }

  const std::int64_t row = std::int64_t{index} * tiling_.rows;
  float* const rescale = rescale_.in<float>(task.scratch);
  auto* const packed = weights_.in<std::uint16_t>(task.scratch);
  WeightRows weights{scores, score_stride_, strip.rows, columns, form_, packed, weight_stride_};
  if (p.has_dropout()) weights.form = WeightForm::f32;
  softmax_.tile(weights, exponent_factor_, highest_.in<float>(task.scratch) + row, totals_.in<float>(task.scratch) + row,
                rescale);
  if (p.has_dropout()) {
    apply_dropout(tile, scores, score_stride_);
    weights.form = form_;
    softmax_.round(weights);
  }

  float* const sums = sums_.in<float>(task.scratch) + row * sum_stride_;
  const int dim = static_cast<int>(p.value_head_dim);
  if (strip.touched) softmax_.rescale(sums, sum_stride_, strip.rows, dim, rescale);
  const std::byte* const value = value_.in<std::byte>(task.scratch);
  for (int c = first; c < last; ++c) {
    const int offset = (c - first) * chunk;
    const Source source = form_ == WeightForm::bf16 ? Source{packed + offset, DHYAN_BF16, weight_stride_}
                                                    : Source{scores + offset, DHYAN_F32, score_stride_};
    const Left left = engine_.left(source, strip.rows, width(c), left_.in<std::byte>(task.scratch));
    engine_.multiply(left, value + static_cast<std::size_t>(c) * value_bytes_, sums, sum_stride_, strip.rows, dim, width(c),
                     strip.touched || c > first);
  }
  strip.touched = true;
}

void FusedForward::finish(const Task& task, const Strip& strip, int index) const {
  const std::int64_t first = std::int64_t{index} * tiling_.rows;
  const float* highest = highest_.in<float>(task.scratch) + first;
  const float* total = totals_.in<float>(task.scratch) + first;
  float* row = sums_.in<float>(task.scratch) + first * sum_stride_;
  for (int r = 0; r < strip.rows; ++r, row += sum_stride_) {
    const std::int64_t token = task.sequence.query_begin + strip.t + r / strip.heads;
    finish_row(problem_, task.buffers, softmax_, task.b, strip.n + r % strip.heads, token,
               {highest[r], total[r], exponent_factor_}, row);
  }
}

}  // namespace

std::unique_ptr<core::Executable> plan_fused_forward(const core::Problem& problem, const dhyan_device_description&) {
  if (streams(problem)) return plan_fused_stream(problem);
  return std::make_unique<FusedForward>(problem);
}

}  // namespace dhyan::cpu

// SPDX-License-Identifier: Apache-2.0
// The fused backward pass. A unit of work is a chunk of keys of one key/value head; it walks over the queries of the head's
// group that see the chunk, keeps dK and dV in its thread's scratch and writes them once. dQ is summed over chunks in ascending
// order, whatever the threads: before adding to a block of it, a unit waits until the unit of the chunk before has added its
// own. Units are claimed chunk by chunk across all heads, and wait only for units claimed earlier.
#include "cpu/fused_backward.hpp"

#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <thread>

#include "core/implementation.hpp"
#include "core/parallel.hpp"
#include "cpu/choice.hpp"
#include "cpu/fused.hpp"

namespace dhyan::cpu {
namespace {

// The tile of a problem: the first row that fits. Measured on Zen 4: a chunk's operands and sums fill most of a 1 MiB
// second-level cache. Where a causal mask or a window cuts tiles, small pieces skip more; where sequences are short besides,
// small blocks pay.
struct TileRow {
  bool banded;
  std::int64_t longest_queries, largest_head_dim;
  int query_block, key_chunk, key_piece;
};
constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
constexpr TileRow kTiles[] = {
    {true, 512, 128, 32, 256, 32},    {true, kAny, 128, 64, 512, 64},    {true, kAny, kAny, 64, 256, 64},
    {false, kAny, 128, 64, 512, 512}, {false, kAny, kAny, 64, 256, 256},
};
// Chunks are halved while a problem has fewer units than this, or while half would hold all keys.
constexpr std::int64_t kUnits = 32;
constexpr int kSmallestChunk = 64;

void choose_tile(BackwardPlan& plan) {
  const core::Problem& p = plan.problem;
  const bool banded = p.causal != DHYAN_CAUSAL_OFF || p.window_left >= 0 || p.window_right >= 0;
  const std::int64_t head_dim = std::max(p.head_dim, p.value_head_dim);
  const TileRow* row = kTiles;
  while (row->banded != banded || p.query_length > row->longest_queries || head_dim > row->largest_head_dim) ++row;
  plan.query_block = row->query_block;
  plan.key_chunk = row->key_chunk;
  const std::int64_t heads = p.batch * p.key_heads;
  while (plan.key_chunk > kSmallestChunk &&
         (plan.key_chunk >= 2 * p.key_length || heads * ceil_div(p.key_length, plan.key_chunk) < kUnits))
    plan.key_chunk /= 2;
  plan.key_piece = std::min(row->key_piece, plan.key_chunk);
  plan.chunks = ceil_div(p.key_length, plan.key_chunk);
}

void choose_scaling(BackwardPlan& plan) {
  const double scale = plan.problem.scale;
  plan.late_factor = static_cast<float>(late_scale(scale));
  plan.packed_factor = static_cast<float>(scale / late_scale(scale));
  if (plan.engine->operand == DHYAN_F32) {
    plan.rounding = plan.problem.dtype;
    return;
  }
  // A power of two is exact in bf16.
  int exponent = 0;
  if (scale != 0) std::frexp(std::fabs(scale), &exponent);
  const double power = std::ldexp(1.0, std::clamp(exponent - 1, -100, 0));
  plan.packed_factor = static_cast<float>(power);
  plan.late_factor = static_cast<float>(scale / power);
  plan.rounding = DHYAN_F32;
}

BackwardPlan make_plan(const core::Problem& problem, const Engine& engine) {
  BackwardPlan plan;
  plan.problem = problem;
  plan.engine = &engine;
  plan.rows = &backward_rows();
  plan.query = problem.grad_query.present();
  plan.key = problem.grad_key.present();
  plan.value = problem.grad_value.present();
  plan.sink = problem.grad_sink.present();
  if (problem.grad_bias.present()) {
    const std::array<std::int64_t, 4> whole = {problem.batch, problem.query_heads, problem.query_length, problem.key_length};
    plan.bias_in_tiles = problem.bias_shape == whole;
    plan.bias_by_sums = !plan.bias_in_tiles;
  }
  choose_tile(plan);
  choose_scaling(plan);
  plan.split_query_sums = plan.query && problem.dtype != DHYAN_F32 && plan.chunks > 1;
  return plan;
}

// How far a unit has come with its blocks of dQ: the number of its blocks, counted over the group, that are final for it.
class Progress {
 public:
  explicit Progress(std::int64_t& passed) : passed_(passed) {}
  void advance(std::int64_t blocks) { passed_.store(blocks, std::memory_order_release); }
  void await(std::int64_t blocks) const {
    for (int spins = 0; passed_.load(std::memory_order_acquire) < blocks; ++spins) {
      if (spins < 200)
        _mm_pause();
      else
        std::this_thread::yield();
    }
  }

 private:
  std::atomic_ref<std::int64_t> passed_;
};

struct Blocks {
  std::int64_t begin, end;
  bool hold(std::int64_t block) const { return block >= begin && block < end; }
};

class FusedBackward final : public core::Executable {
 public:
  FusedBackward(const core::Problem& problem, const Engine& engine) : plan_(make_plan(problem, engine)) {
    Carver carver(nullptr);
    const SharedScratch shared(plan_, carver);
    shared_bytes_ = carver.used();
    const std::int64_t units = plan_.tiles() ? problem.batch * problem.key_heads * plan_.chunks : 0;
    if (units > 0) {
      Carver worker(nullptr);
      carve(shared, worker);
      worker_bytes_ = worker.used();
    }
    const BiasSize bias = bias_size(plan_, shared);
    worker_bytes_ = std::max(worker_bytes_, bias.worker_bytes);
    workers_ = std::min<std::int64_t>(std::max(problem.threads, 1), std::max(units, bias.tasks));
  }

  std::size_t scratch_bytes() const override { return shared_bytes_ + worker_bytes_ * static_cast<std::size_t>(workers_); }

  std::string describe() const override {
    return std::string("fused backward, ") + plan_.engine->name + ", tiles of " + std::to_string(plan_.query_block) +
           " queries x " + std::to_string(plan_.key_chunk) + " keys";
  }

  void run(const core::Buffers& buffers, void* scratch, void* /*stream*/) const override {
    const core::Problem& p = plan_.problem;
    Carver carver(scratch);
    const SharedScratch shared(plan_, carver);
    std::byte* workers = static_cast<std::byte*>(scratch) + shared_bytes_;
    prepare_backward(plan_, buffers, shared);
    if (plan_.sink) sink_gradient(plan_, buffers, shared);
    if (plan_.tiles()) {
      const std::int64_t heads = p.batch * p.key_heads;
      const std::int64_t chunks = used_chunks(buffers);
      if (plan_.query) std::fill_n(shared.passed, heads * chunks, std::int64_t{0});
      core::parallel_for(heads * chunks, p.threads, [&](std::int64_t unit, int worker) {
        Carver own(workers + static_cast<std::size_t>(worker) * worker_bytes_);
        run_unit(buffers, shared, carve(shared, own), unit / heads, unit % heads);
      });
    }
    if (plan_.bias_by_sums) bias_gradient(plan_, buffers, shared, workers, worker_bytes_);
  }

 private:
  struct Worker {
    BackwardTile tile;
    float *key_sums, *value_sums, *query_tile;
  };

  std::int64_t key_stride() const { return round_up(plan_.problem.head_dim, 16); }
  std::int64_t value_stride() const { return round_up(plan_.problem.value_head_dim, 16); }

  Worker carve(const SharedScratch& shared, Carver& carver) const {
    const std::int64_t columns = plan_.key_chunk;
    return {BackwardTile(plan_, shared, false, carver),
            carver.take<float>(static_cast<std::size_t>(plan_.key ? columns * key_stride() : 0)),
            carver.take<float>(static_cast<std::size_t>(plan_.value ? columns * value_stride() : 0)),
            carver.take<float>(static_cast<std::size_t>(plan_.query ? plan_.query_block * key_stride() : 0))};
  }
  // Chunks of the longest sequence there is.
  std::int64_t used_chunks(const core::Buffers& buffers) const {
    const core::Problem& p = plan_.problem;
    if (!p.packed && !p.key_lengths.present()) return plan_.chunks;
    std::int64_t longest = 0;
    for (std::int64_t b = 0; b < p.batch; ++b) longest = std::max(longest, core::sequence(p, buffers, b).key_count);
    return ceil_div(longest, plan_.key_chunk);
  }

  Blocks blocks_of(const core::Sequence& sequence, std::int64_t chunk) const {
    const std::int64_t begin = chunk * plan_.key_chunk, end = std::min(begin + plan_.key_chunk, sequence.key_count);
    if (chunk < 0 || begin >= end) return {0, 0};
    const core::KeyRange queries = core::visible_queries(plan_.problem, sequence, begin, end);
    return {queries.begin / plan_.query_block, ceil_div(queries.end, plan_.query_block)};
  }

  // An exception here would leave other units waiting for ever.
  void run_unit(const core::Buffers& buffers, const SharedScratch& shared, Worker&& worker, std::int64_t chunk,
                std::int64_t head) const noexcept {
    const core::Problem& p = plan_.problem;
    const std::int64_t b = head / p.key_heads, key_head = head % p.key_heads;
    const core::Sequence sequence = core::sequence(p, buffers, b);
    const std::int64_t s = chunk * plan_.key_chunk;
    if (s >= sequence.key_count) return;
    const auto columns = static_cast<int>(std::min<std::int64_t>(plan_.key_chunk, sequence.key_count - s));
    const Blocks blocks = blocks_of(sequence, chunk), before = blocks_of(sequence, chunk - 1),
                 after = blocks_of(sequence, chunk + 1);
    const std::int64_t all_blocks = ceil_div(sequence.query_count, plan_.query_block);

    if (plan_.key) std::fill_n(worker.key_sums, columns * key_stride(), 0.0f);
    if (plan_.value) std::fill_n(worker.value_sums, columns * value_stride(), 0.0f);
    if (blocks.begin < blocks.end) worker.tile.pack_keys(buffers, sequence, b, key_head, s, columns);
    std::int64_t* passed = shared.passed + chunk * p.batch * p.key_heads + head;
    const bool ordered = plan_.query && chunk > 0, awaited = plan_.query && s + columns < sequence.key_count;
    for (std::int64_t g = 0; g < plan_.group(); ++g) {
      const std::int64_t n = key_head * plan_.group() + g;
      for (std::int64_t block = blocks.begin; block < blocks.end; ++block) {
        const std::int64_t t = block * plan_.query_block;
        const auto rows = static_cast<int>(std::min<std::int64_t>(plan_.query_block, sequence.query_count - t));
        const bool seen = worker.tile.compute(buffers, sequence, b, n, t, rows);
        if (seen && plan_.value) worker.tile.add_value_gradient(buffers, sequence, worker.value_sums, value_stride());
        if (seen && plan_.key) worker.tile.add_key_gradient(buffers, sequence, worker.key_sums, key_stride());
        if (seen && plan_.bias_in_tiles) write_bias(buffers, worker.tile, b, n, t, s, rows);
        if (!plan_.query) continue;
        if (seen)
          worker.tile.query_gradient(worker.query_tile, key_stride());
        else
          std::fill_n(worker.query_tile, rows * key_stride(), 0.0f);
        const std::int64_t position = g * all_blocks + block + 1;
        if (ordered) Progress(*(passed - p.batch * p.key_heads)).await(position);
        add_query(buffers, shared, sequence, worker.query_tile, b, n, t, rows, !before.hold(block), !after.hold(block));
        if (awaited) Progress(*passed).advance(position);
      }
    }
    if (plan_.engine->release) plan_.engine->release();
    if (ordered && awaited) Progress(*(passed - p.batch * p.key_heads)).await(plan_.group() * all_blocks);
    if (awaited) Progress(*passed).advance(plan_.group() * all_blocks);
    if (plan_.key)
      write_rows(p.grad_key, buffers.grad_key, sequence.key_begin + s, b, key_head, columns, p.head_dim, worker.key_sums,
                 key_stride(), plan_.late_factor);
    if (plan_.value)
      write_rows(p.grad_value, buffers.grad_value, sequence.key_begin + s, b, key_head, columns, p.value_head_dim,
                 worker.value_sums, value_stride(), 1);
  }

  void write_rows(const core::Operand& operand, void* data, std::int64_t token, std::int64_t b, std::int64_t head, int rows,
                  std::int64_t dim, const float* from, std::int64_t stride, float factor) const {
    plan_.rows->write(from, stride, factor, core::advance(data, operand.dtype, row_offset(operand, b, token, head)),
                      operand.strides[1], operand.dtype, rows, dim);
  }

  // Adds a block of one chunk to dQ; `first` and `last` say whether other chunks have added, or will. Between them f32 sums lie
  // in grad_query itself; in a 16-bit one their upper halves do, and the lower in scratch.
  void add_query(const core::Buffers& buffers, const SharedScratch& shared, const core::Sequence& sequence, const float* tile,
                 std::int64_t b, std::int64_t n, std::int64_t t, int rows, bool first, bool last) const {
    const core::Problem& p = plan_.problem;
    const core::Operand& operand = p.grad_query;
    const std::int64_t stride = key_stride(), token = sequence.query_begin + t;
    void* to = core::advance(buffers.grad_query, operand.dtype, row_offset(operand, b, token, n));
    if (first && last) {
      plan_.rows->write(tile, stride, plan_.late_factor, to, operand.strides[1], operand.dtype, rows, p.head_dim);
    } else if (operand.dtype == DHYAN_F32) {
      plan_.rows->add(tile, stride, static_cast<float*>(to), operand.strides[1], rows, p.head_dim, !first);
      if (last && plan_.late_factor != 1)
        plan_.rows->write(static_cast<float*>(to), operand.strides[1], plan_.late_factor, to, operand.strides[1], DHYAN_F32,
                          rows, p.head_dim);
    } else {
      std::uint16_t* lower = shared.query_halves + (plan_.first_row(b, n, sequence) + t) * p.head_dim;
      auto* upper = static_cast<std::uint16_t*>(to);
      if (last)
        plan_.rows->finish_halves(tile, stride, plan_.late_factor, upper, operand.strides[1], lower, p.head_dim, operand.dtype,
                                  rows, p.head_dim);
      else
        plan_.rows->add_halves(tile, stride, upper, operand.strides[1], lower, p.head_dim, rows, p.head_dim, !first);
    }
  }

  void write_bias(const core::Buffers& buffers, const BackwardTile& tile, std::int64_t b, std::int64_t n, std::int64_t t,
                  std::int64_t s, int rows) const {
    const auto& strides = plan_.problem.grad_bias.strides;
    for (int r = 0; r < rows; ++r)
      write_bias_row(plan_, buffers, b * strides[0] + n * strides[1] + (t + r) * strides[2] + (s + tile.first()) * strides[3],
                     tile.logit_gradients() + tile.first() + r * tile.stride(), tile.last() - tile.first());
  }

  BackwardPlan plan_;
  std::size_t shared_bytes_ = 0, worker_bytes_ = 0;
  std::int64_t workers_ = 0;
};

}  // namespace

std::unique_ptr<core::Executable> plan_fused_backward(const core::Problem& problem, const dhyan_device_description&) {
  return std::make_unique<FusedBackward>(problem, *choose_engine(problem.dtype).engine);
}

}  // namespace dhyan::cpu

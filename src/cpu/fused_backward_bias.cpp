// SPDX-License-Identifier: Apache-2.0
// dBias where some of its dimensions broadcast: each of its tiles sums the score gradients of all that share it, computed anew,
// in an order that the problem alone decides.
#include <algorithm>
#include <cstring>

#include "core/parallel.hpp"
#include "cpu/fused_backward.hpp"

namespace dhyan::cpu {
namespace {

constexpr std::int64_t kTasks = 64;  // fewer tiles than this are cut into slices of what they sum, to occupy more threads

struct BiasGrid {
  bool batch, head, query, key;            // which dimensions do not broadcast
  std::int64_t query_blocks, key_chunks;   // of the problem
  std::int64_t tiles;                      // of dBias
  std::int64_t terms, slices;              // summed into each tile, and in how many parts
  std::int64_t rows, columns, row_stride;  // of a tile

  explicit BiasGrid(const BackwardPlan& plan) {
    const core::Problem& p = plan.problem;
    batch = p.bias_shape[0] == p.batch;
    head = p.bias_shape[1] == p.query_heads;
    query = p.bias_shape[2] == p.query_length;
    key = p.bias_shape[3] == p.key_length;
    query_blocks = ceil_div(p.query_length, plan.query_block);
    key_chunks = ceil_div(p.key_length, plan.key_chunk);
    tiles = (batch ? p.batch : 1) * (head ? p.query_heads : 1) * (query ? query_blocks : 1) * (key ? key_chunks : 1);
    terms = (batch ? 1 : p.batch) * (head ? 1 : p.query_heads) * (query ? 1 : query_blocks) * (key ? 1 : key_chunks);
    slices = tiles == 0 ? 1 : std::clamp<std::int64_t>(ceil_div(kTasks, tiles), 1, std::max<std::int64_t>(terms, 1));
    rows = query ? plan.query_block : 1;
    columns = key ? plan.key_chunk : 1;
    row_stride = round_up(columns, 16);
  }
  std::int64_t tile_floats() const { return rows * row_stride; }
};

// One pair (query block, key chunk) of one head.
struct Term {
  std::int64_t b, key_head, chunk, n, block;
};

// Terms of a tile in the order of their sum: keys change as seldom as can be.
Term term_of(const BackwardPlan& plan, const BiasGrid& grid, std::int64_t tile, std::int64_t index) {
  const core::Problem& p = plan.problem;
  const auto next = [](std::int64_t& from, std::int64_t extent) {
    extent = std::max<std::int64_t>(extent, 1);
    const std::int64_t digit = from % extent;
    from /= extent;
    return digit;
  };
  Term term{};
  if (grid.key) term.chunk = next(tile, grid.key_chunks);
  if (grid.query) term.block = next(tile, grid.query_blocks);
  if (grid.head) term.n = next(tile, p.query_heads);
  if (grid.batch) term.b = tile;
  if (!grid.query) term.block = next(index, grid.query_blocks);
  const std::int64_t in_group = grid.head ? 0 : next(index, plan.group());
  if (!grid.key) term.chunk = next(index, grid.key_chunks);
  if (!grid.head) term.n = next(index, p.key_heads) * plan.group() + in_group;
  if (!grid.batch) term.b = index;
  term.key_head = term.n / std::max<std::int64_t>(plan.group(), 1);
  return term;
}

void add_tile(const BackwardPlan& plan, const BiasGrid& grid, const BackwardTile& tile, int rows, float* sums) {
  const std::int64_t columns = tile.last() - tile.first();
  for (int r = 0; r < rows; ++r) {
    const float* from = tile.logit_gradients() + tile.first() + r * tile.stride();
    float* to = sums + (grid.query ? r * grid.row_stride : 0);
    if (grid.key)
      plan.rows->add(from, 0, to + tile.first(), 0, 1, columns, true);
    else
      *to += plan.rows->sum(from, columns);
  }
}

void write_tile(const BackwardPlan& plan, const BiasGrid& grid, const core::Buffers& buffers, std::int64_t tile,
                const float* sums) {
  const core::Problem& p = plan.problem;
  const core::Operand& bias = p.grad_bias;
  const Term at = term_of(plan, grid, tile, 0);
  const std::int64_t t = at.block * plan.query_block, s = at.chunk * plan.key_chunk;
  const std::int64_t rows = grid.query ? std::min<std::int64_t>(grid.rows, p.query_length - t) : 1;
  const std::int64_t columns = grid.key ? std::min<std::int64_t>(grid.columns, p.key_length - s) : 1;
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* from = sums + r * grid.row_stride;
    const std::int64_t offset = (grid.batch ? at.b * bias.strides[0] : 0) + (grid.head ? at.n * bias.strides[1] : 0) +
                                (grid.query ? (t + r) * bias.strides[2] : 0) + (grid.key ? s * bias.strides[3] : 0);
    write_bias_row(plan, buffers, offset, from, columns);
  }
}

}  // namespace

void write_bias_row(const BackwardPlan& plan, const core::Buffers& buffers, std::int64_t offset, const float* from,
                    std::int64_t count) {
  const core::Operand& bias = plan.problem.grad_bias;
  if ((bias.strides[3] == 1 || count == 1) && bias.dtype != DHYAN_F64) {
    plan.rows->write(from, 0, 1, core::advance(buffers.grad_bias, bias.dtype, offset), 0, bias.dtype, 1, count);
    return;
  }
  for (std::int64_t c = 0; c < count; ++c)
    core::store(buffers.grad_bias, bias.dtype, offset + c * bias.strides[3], static_cast<double>(from[c]));
}

BiasSize bias_size(const BackwardPlan& plan, const SharedScratch& shared) {
  if (!plan.bias_by_sums) return {};
  const BiasGrid grid(plan);
  Carver worker(nullptr);
  worker.take<float>(static_cast<std::size_t>(grid.tile_floats()));
  BackwardTile(plan, shared, true, worker);
  return {grid.tiles * grid.slices, worker.used()};
}

std::int64_t bias_partial_floats(const BackwardPlan& plan) {
  if (!plan.bias_by_sums) return 0;
  const BiasGrid grid(plan);
  return grid.slices == 1 ? 0 : grid.tiles * grid.slices * grid.tile_floats();
}

void bias_gradient(const BackwardPlan& plan, const core::Buffers& buffers, const SharedScratch& shared, std::byte* workers,
                   std::size_t worker_bytes) {
  const core::Problem& p = plan.problem;
  const BiasGrid grid(plan);
  const std::int64_t floats = grid.tile_floats();
  core::parallel_for(grid.tiles * grid.slices, p.threads, [&](std::int64_t task, int worker) {
    Carver carver(workers + static_cast<std::size_t>(worker) * worker_bytes);
    float* sums = carver.take<float>(static_cast<std::size_t>(floats));
    BackwardTile tile(plan, shared, true, carver);
    if (grid.slices > 1) sums = shared.bias_partials + task * floats;
    std::fill_n(sums, floats, 0.0f);
    const std::int64_t index = task / grid.slices, slice = task % grid.slices;
    Term packed{-1, -1, -1, 0, 0};
    for (std::int64_t i = grid.terms * slice / grid.slices; i < grid.terms * (slice + 1) / grid.slices; ++i) {
      const Term term = term_of(plan, grid, index, i);
      const core::Sequence sequence = core::sequence(p, buffers, term.b);
      const std::int64_t t = term.block * plan.query_block, s = term.chunk * plan.key_chunk;
      if (t >= sequence.query_count || s >= sequence.key_count) continue;
      const auto columns = static_cast<int>(std::min<std::int64_t>(plan.key_chunk, sequence.key_count - s));
      const core::KeyRange seen = core::visible_queries(p, sequence, s, s + columns);
      const auto rows = static_cast<int>(std::min<std::int64_t>(plan.query_block, sequence.query_count - t));
      if (t + rows <= seen.begin || t >= seen.end) continue;
      if (term.b != packed.b || term.key_head != packed.key_head || term.chunk != packed.chunk) {
        tile.pack_keys(buffers, sequence, term.b, term.key_head, s, columns);
        packed = term;
      }
      if (tile.compute(buffers, sequence, term.b, term.n, t, rows)) add_tile(plan, grid, tile, rows, sums);
    }
    if (plan.engine->release) plan.engine->release();
    if (grid.slices == 1) write_tile(plan, grid, buffers, index, sums);
  });
  if (grid.slices == 1) return;
  core::parallel_for(grid.tiles, p.threads, [&](std::int64_t index, int) {
    float* sums = shared.bias_partials + index * grid.slices * floats;
    for (std::int64_t slice = 1; slice < grid.slices; ++slice)
      plan.rows->add(sums + slice * floats, 0, sums, 0, 1, floats, true);
    write_tile(plan, grid, buffers, index, sums);
  });
}

}  // namespace dhyan::cpu

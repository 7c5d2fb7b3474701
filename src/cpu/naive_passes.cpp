// SPDX-License-Identifier: Apache-2.0
#include "cpu/naive_passes.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/convert.hpp"
#include "core/parallel.hpp"

namespace dhyan::cpu::naive {
namespace {

constexpr double negative_infinity = -std::numeric_limits<double>::infinity();

std::int64_t round_up(std::int64_t x, std::int64_t multiple) { return (x + multiple - 1) / multiple * multiple; }
std::int64_t blocks(std::int64_t x, std::int64_t block) { return (x + block - 1) / block; }

// Weights; backward also the gradients of the scores, and of the logits where dbias wants them.
int matrix_count(const core::Problem& p) {
  if (p.direction == DHYAN_FORWARD) return 1;
  return p.grad_bias.present() ? 3 : 2;
}

// What scratch holds, in order: the matrices, delta, and each thread's own storage and block of results.
template <class Real>
class Memory {
 public:
  Memory(const core::Problem& p, const Steps<Real>& steps, void* scratch)
      : p_(p),
        stride_(round_up(p.key_length, 16)),
        matrix_(p.batch * p.query_heads * p.query_length * stride_),
        delta_(round_up(p.batch * p.query_heads * p.query_length, 16)),
        result_stride_(round_up(std::max(p.head_dim, p.value_head_dim), 16)),
        right_(static_cast<std::int64_t>(steps.right_bytes(p))),
        left_(static_cast<std::int64_t>(steps.left_bytes(p))),
        base_(static_cast<std::byte*>(scratch)) {}

  std::int64_t stride() const { return stride_; }
  std::int64_t result_stride() const { return result_stride_; }
  // Row t of a head in matrix i.
  Real* row(int i, std::int64_t b, std::int64_t n, std::int64_t t) const {
    return reals(0) + i * matrix_ + ((b * p_.query_heads + n) * p_.query_length + t) * stride_;
  }
  Real* delta(std::int64_t b, std::int64_t n, std::int64_t t) const {
    return reals(matrices()) + (b * p_.query_heads + n) * p_.query_length + t;
  }
  Storage storage(int worker) const {
    std::byte* at = base_ + bytes_before_workers() + worker * worker_bytes();
    std::byte* row = at + right_ + left_;
    return {at, at + right_, {row, row + row_bytes()}};
  }
  // A block of rows of the output.
  Real* result(int worker) const {
    std::byte* at = static_cast<std::byte*>(storage(worker).rows[1]) + row_bytes();
    return reinterpret_cast<Real*>(at);
  }
  std::size_t bytes() const { return static_cast<std::size_t>(bytes_before_workers() + p_.threads * worker_bytes()); }

 private:
  std::int64_t matrices() const { return matrix_count(p_) * matrix_; }
  Real* reals(std::int64_t i) const { return reinterpret_cast<Real*>(base_) + i; }
  std::int64_t bytes_before_workers() const { return (matrices() + delta_) * static_cast<std::int64_t>(sizeof(Real)); }
  std::int64_t row_bytes() const { return stride_ * static_cast<std::int64_t>(sizeof(Real)); }
  std::int64_t worker_bytes() const {
    const std::int64_t result = std::max(kRowBlock, kKeyBlock) * result_stride_ * static_cast<std::int64_t>(sizeof(Real));
    return right_ + left_ + 2 * row_bytes() + result;
  }

  const core::Problem& p_;
  std::int64_t stride_, matrix_, delta_, result_stride_, right_, left_;
  std::byte* base_;
};

// One run: the problem, its buffers and where its sequences lie.
template <class Real>
struct Run {
  Run(const core::Problem& problem, const Steps<Real>& steps_, const core::Buffers& buffers_, void* scratch)
      : p(problem), steps(steps_), buffers(buffers_), memory(problem, steps_, scratch) {
    for (std::int64_t b = 0; b < p.batch; ++b) sequences.push_back(core::sequence(p, buffers, b));
  }
  const core::Sequence& sequence(std::int64_t b) const { return sequences[static_cast<std::size_t>(b)]; }

  const core::Problem& p;
  const Steps<Real>& steps;
  const core::Buffers& buffers;
  Memory<Real> memory;
  std::vector<core::Sequence> sequences;
};

std::int64_t offset(const core::Operand& x, std::int64_t b, std::int64_t second, std::int64_t third) {
  return b * x.strides[0] + second * x.strides[1] + third * x.strides[2];
}

Rows rows_of(const core::Operand& x, const void* data, std::int64_t b, std::int64_t token, std::int64_t head) {
  return {core::advance(data, x.dtype, offset(x, b, token, head)), x.dtype, x.strides[1]};
}

void blank(const core::Problem& p, const core::Buffers& buffers, bool queries, const core::Operand& x, void* data,
           std::int64_t heads, std::int64_t width) {
  if (!x.present()) return;
  core::uncovered_rows(p, buffers, queries, [&](std::int64_t b, std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      for (std::int64_t head = 0; head < heads; ++head) {
        for (std::int64_t h = 0; h < width; ++h) core::store(data, x.dtype, offset(x, b, token, head) + h, 0.0);
      }
    }
  });
}

// Calls body(b, n, begin, count, worker) for blocks of the queries (or keys) of every head.
template <class Real, class Body>
void over_blocks(const Run<Real>& run, bool queries, std::int64_t heads, const Body& body) {
  const core::Problem& p = run.p;
  const int block = queries ? kRowBlock : kKeyBlock;
  const std::int64_t per_head = blocks(queries ? p.query_length : p.key_length, block);
  core::parallel_for(p.batch * heads * per_head, p.threads, [&](std::int64_t task, int worker) {
    const std::int64_t b = task / (heads * per_head);
    const core::Sequence& sequence = run.sequence(b);
    const std::int64_t begin = task % per_head * block;
    const std::int64_t count = std::min<std::int64_t>((queries ? sequence.query_count : sequence.key_count) - begin, block);
    if (count > 0) body(b, task / per_head % heads, begin, static_cast<int>(count), worker);
  });
}

// Matrix `to` = factor * A B^T for all heads, A of the queries and B of the keys.
template <class Real>
void fill_matrix(const Run<Real>& run, int to, const core::Operand& a, const void* a_data, double factor,
                 const core::Operand& b, const void* b_data, std::int64_t width) {
  over_blocks(run, false, run.p.query_heads, [&](std::int64_t e, std::int64_t n, std::int64_t s, int keys, int worker) {
    const core::Sequence& sequence = run.sequence(e);
    const Rows left = rows_of(a, a_data, e, sequence.query_begin, n);
    const Rows right = rows_of(b, b_data, e, sequence.key_begin + s, n / run.p.group());
    run.steps.rows_by_rows(left, factor, right, static_cast<int>(sequence.query_count), keys, static_cast<int>(width),
                           run.memory.row(to, e, n, 0) + s, run.memory.stride(), run.memory.storage(worker));
  });
}

// Rows of `x` (out or dQ) = factor * matrix times the keys' rows.
template <class Real>
void apply_matrix(const Run<Real>& run, int from, const core::Operand& b, const void* b_data, std::int64_t width, double factor,
                  const core::Operand& x, void* x_data) {
  over_blocks(run, true, run.p.query_heads, [&](std::int64_t e, std::int64_t n, std::int64_t t, int rows, int worker) {
    const core::Sequence& sequence = run.sequence(e);
    Real* result = run.memory.result(worker);
    const std::int64_t stride = run.memory.result_stride();
    run.steps.weights_by_rows(run.memory.row(from, e, n, t), run.memory.stride(),
                              rows_of(b, b_data, e, sequence.key_begin, n / run.p.group()), rows, static_cast<int>(width),
                              static_cast<int>(sequence.key_count), result, stride, run.memory.storage(worker));
    for (int r = 0; r < rows; ++r) {
      run.steps.write(result + r * stride, factor, static_cast<int>(width), x.dtype,
                      core::advance(x_data, x.dtype, offset(x, e, sequence.query_begin + t + r, n)));
    }
  });
}

template <class Real>
void softmax_rows(const Run<Real>& run) {
  const core::Problem& p = run.p;
  over_blocks(run, true, p.query_heads, [&](std::int64_t b, std::int64_t n, std::int64_t t, int rows, int) {
    const core::Sequence& sequence = run.sequence(b);
    Real lse[kRowBlock];
    run.steps.softmax({p, run.buffers, sequence, b, n, t, rows}, run.memory.row(0, b, n, t), run.memory.stride(), lse);
    if (!p.lse.present()) return;
    for (int r = 0; r < rows; ++r) {
      core::store(run.buffers.lse, p.lse.dtype, offset(p.lse, b, n, sequence.query_begin + t + r), static_cast<double>(lse[r]));
    }
  });
}

template <class Real>
void gradient_rows(const Run<Real>& run) {
  const core::Problem& p = run.p;
  over_blocks(run, true, p.query_heads, [&](std::int64_t b, std::int64_t n, std::int64_t t, int rows, int worker) {
    const core::Sequence& sequence = run.sequence(b);
    Real lse[kRowBlock];
    Real* delta = run.memory.delta(b, n, t);
    for (int r = 0; r < rows; ++r) {
      const std::int64_t token = sequence.query_begin + t + r;
      lse[r] = static_cast<Real>(core::load(run.buffers.lse, p.lse.dtype, offset(p.lse, b, n, token)));
      double sum = 0;
      for (std::int64_t h = 0; h < p.value_head_dim; ++h) {
        sum += core::load(run.buffers.grad_out, p.dtype, offset(p.grad_out, b, token, n) + h) *
               core::load(run.buffers.out, p.dtype, offset(p.out, b, token, n) + h);
      }
      if (p.grad_lse.present()) {
        sum -= core::load(run.buffers.grad_lse, p.grad_lse.dtype, offset(p.grad_lse, b, n, token));
      }
      delta[r] = static_cast<Real>(sum);
    }
    Real* logits = p.grad_bias.present() ? run.memory.row(2, b, n, t) : nullptr;
    run.steps.gradient({p, run.buffers, sequence, b, n, t, rows}, run.memory.row(0, b, n, t), run.memory.row(1, b, n, t),
                       logits, run.memory.stride(), lse, delta, run.memory.storage(worker));
  });
}

// dK and dV: every block of keys sums over the query heads that read it.
template <class Real>
void key_gradients(const Run<Real>& run) {
  const core::Problem& p = run.p;
  struct Output {
    const core::Operand& gradient;
    void* data;
    int matrix;
    const core::Operand& rows;  // what the matrix's transpose is multiplied by
    const void* rows_data;
    std::int64_t width;
    double factor;
  };
  const Output outputs[2] = {
      {p.grad_key, run.buffers.grad_key, 1, p.query, run.buffers.query, p.head_dim, p.scale},
      {p.grad_value, run.buffers.grad_value, 0, p.grad_out, run.buffers.grad_out, p.value_head_dim, 1.0},
  };
  const std::int64_t stride = run.memory.result_stride();
  over_blocks(run, false, p.key_heads, [&](std::int64_t b, std::int64_t head, std::int64_t s, int keys, int worker) {
    const core::Sequence& sequence = run.sequence(b);
    for (const Output& output : outputs) {
      if (!output.gradient.present()) continue;
      Real* result = run.memory.result(worker);
      std::fill(result, result + keys * stride, Real{0});
      for (std::int64_t n = head * p.group(); n < (head + 1) * p.group(); ++n) {
        run.steps.weights_transposed_by_rows(run.memory.row(output.matrix, b, n, 0) + s, run.memory.stride(),
                                             rows_of(output.rows, output.rows_data, b, sequence.query_begin, n), keys,
                                             static_cast<int>(output.width), static_cast<int>(sequence.query_count), result,
                                             stride, run.memory.storage(worker));
      }
      for (int r = 0; r < keys; ++r) {
        const core::Operand& x = output.gradient;
        run.steps.write(result + r * stride, output.factor, static_cast<int>(output.width), x.dtype,
                        core::advance(output.data, x.dtype, offset(x, b, sequence.key_begin + s + r, head)));
      }
    }
  });
}

// Each row of dbias sums the rows of the matrix that it was broadcast to.
template <class Real>
void bias_gradient(const Run<Real>& run) {
  const core::Problem& p = run.p;
  const auto& shape = p.bias_shape;
  const std::int64_t sizes[3] = {p.batch, p.query_heads, p.query_length};
  core::parallel_for(shape[0] * shape[1] * shape[2], p.threads, [&](std::int64_t task, int) {
    const std::int64_t at[3] = {task / (shape[1] * shape[2]), task / shape[2] % shape[1], task % shape[2]};
    const auto end = [&](int i) { return shape[static_cast<std::size_t>(i)] == 1 ? sizes[i] : at[i] + 1; };
    std::vector<double> sums(static_cast<std::size_t>(p.key_length), 0.0);
    for (std::int64_t b = at[0]; b < end(0); ++b) {
      const core::Sequence& sequence = run.sequence(b);
      for (std::int64_t n = at[1]; n < end(1); ++n) {
        for (std::int64_t t = at[2]; t < std::min(end(2), sequence.query_count); ++t) {
          const Real* row = run.memory.row(2, b, n, t);
          for (std::int64_t s = 0; s < sequence.key_count; ++s)
            sums[static_cast<std::size_t>(s)] += static_cast<double>(row[s]);
        }
      }
    }
    if (shape[3] == 1) {
      double total = 0;
      for (const double x : sums) total += x;
      sums.assign(1, total);
    }
    const auto& strides = p.grad_bias.strides;
    const std::int64_t begin = at[0] * strides[0] + at[1] * strides[1] + at[2] * strides[2];
    for (std::int64_t s = 0; s < shape[3]; ++s) {
      core::store(run.buffers.grad_bias, p.grad_bias.dtype, begin + s * strides[3], sums[static_cast<std::size_t>(s)]);
    }
  });
}

template <class Real>
void sink_gradient(const Run<Real>& run) {
  const core::Problem& p = run.p;
  for (std::int64_t n = 0; n < p.query_heads; ++n) {
    const double sink = core::load(run.buffers.sink, p.sink.dtype, n * p.sink.strides[0]);
    double sum = 0;
    for (std::int64_t b = 0; b < p.batch; ++b) {
      const core::Sequence& sequence = run.sequence(b);
      for (std::int64_t t = 0; t < sequence.query_count; ++t) {
        const double lse = core::load(run.buffers.lse, p.lse.dtype, offset(p.lse, b, n, sequence.query_begin + t));
        if (lse != negative_infinity) sum -= std::exp(sink - lse) * static_cast<double>(*run.memory.delta(b, n, t));
      }
    }
    core::store(run.buffers.grad_sink, p.grad_sink.dtype, n * p.grad_sink.strides[0], sum);
  }
}

}  // namespace

double matrix_bytes(const core::Problem& p) {
  const double element = p.dtype == DHYAN_F64 ? sizeof(double) : sizeof(float);
  return matrix_count(p) * element * static_cast<double>(p.batch) * static_cast<double>(p.query_heads) *
         static_cast<double>(p.query_length) * static_cast<double>(round_up(p.key_length, 16));
}

template <class Real>
std::size_t scratch_bytes(const core::Problem& p, const Steps<Real>& steps) {
  return Memory<Real>(p, steps, nullptr).bytes();
}

template <class Real>
void forward(const core::Problem& p, const Steps<Real>& steps, const core::Buffers& buffers, void* scratch) {
  const Run<Real> run(p, steps, buffers, scratch);
  blank(p, buffers, true, p.out, buffers.out, p.query_heads, p.value_head_dim);
  if (p.lse.present()) {
    core::uncovered_rows(p, buffers, true, [&](std::int64_t b, std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = 0; n < p.query_heads; ++n) {
        for (std::int64_t token = begin; token < end; ++token) {
          core::store(buffers.lse, p.lse.dtype, offset(p.lse, b, n, token), negative_infinity);
        }
      }
    });
  }
  fill_matrix(run, 0, p.query, buffers.query, p.scale, p.key, buffers.key, p.head_dim);
  softmax_rows(run);
  apply_matrix(run, 0, p.value, buffers.value, p.value_head_dim, 1.0, p.out, buffers.out);
}

template <class Real>
void backward(const core::Problem& p, const Steps<Real>& steps, const core::Buffers& buffers, void* scratch) {
  const Run<Real> run(p, steps, buffers, scratch);
  blank(p, buffers, true, p.grad_query, buffers.grad_query, p.query_heads, p.head_dim);
  blank(p, buffers, false, p.grad_key, buffers.grad_key, p.key_heads, p.head_dim);
  blank(p, buffers, false, p.grad_value, buffers.grad_value, p.key_heads, p.value_head_dim);
  fill_matrix(run, 0, p.query, buffers.query, p.scale, p.key, buffers.key, p.head_dim);
  fill_matrix(run, 1, p.grad_out, buffers.grad_out, 1.0, p.value, buffers.value, p.value_head_dim);
  gradient_rows(run);
  if (p.grad_query.present()) {
    apply_matrix(run, 1, p.key, buffers.key, p.head_dim, p.scale, p.grad_query, buffers.grad_query);
  }
  key_gradients(run);
  if (p.grad_bias.present()) bias_gradient(run);
  if (p.grad_sink.present()) sink_gradient(run);
}

template std::size_t scratch_bytes(const core::Problem&, const Steps<float>&);
template std::size_t scratch_bytes(const core::Problem&, const Steps<double>&);
template void forward(const core::Problem&, const Steps<float>&, const core::Buffers&, void*);
template void forward(const core::Problem&, const Steps<double>&, const core::Buffers&, void*);
template void backward(const core::Problem&, const Steps<float>&, const core::Buffers&, void*);
template void backward(const core::Problem&, const Steps<double>&, const core::Buffers&, void*);

}  // namespace dhyan::cpu::naive

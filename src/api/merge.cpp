// SPDX-License-Identifier: Apache-2.0
#include "api/merge.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>

#include "api/abi.hpp"
#include "api/rows.hpp"
#include "api/tensor.hpp"
#include "core/parallel.hpp"
#include "cuda/device.hpp"

namespace dhyan::api {
namespace {

constexpr std::int64_t kPiece = 256;                    // elements joined at a time
constexpr std::int64_t kTask = std::int64_t{32} << 10;  // elements below which another thread does not pay

[[noreturn]] void refuse(const std::string& sentence) { throw core::Error(DHYAN_INVALID_ARGUMENT, sentence); }

struct Named {
  const char* name;
  Layout layout;
  void* data;
};

struct Parts {
  Named out_a, lse_a, out_b, lse_b, out, lse;
};

Named named(const dhyan_tensor* tensor, const char* name, const dhyan_tensor& first) {
  const dhyan_tensor t = read(tensor, name, offsetof(dhyan_tensor, alignment));
  require_device(t, name, first, "out_a");
  return {name, read_layout(t, name, true), t.data};
}

std::string dtype_text(const Named& t) { return std::string(t.name) + ": dtype " + core::name_of(t.layout.dtype); }

void check_out(const Named& t, const Named& first) {
  if (t.layout.dtype < DHYAN_F64 || t.layout.dtype > DHYAN_BF16) refuse(dtype_text(t) + ", it must be f64, f32, f16 or bf16");
  if (t.layout.rank != 3 && t.layout.rank != 4) {
    refuse(std::string(t.name) + ": shape " + shape_text(t.layout) +
           ", it must be [batch, query length, heads, head_dim] or [tokens, heads, head_dim]");
  }
  if (t.layout.rank != first.layout.rank || t.layout.shape != first.layout.shape) {
    refuse(std::string(t.name) + ": shape " + shape_text(t.layout) + ", it must be out_a's, " + shape_text(first.layout));
  }
}

void check_lse(const Named& t, const Named& out) {
  if (t.layout.dtype != DHYAN_F32 && t.layout.dtype != DHYAN_F64) refuse(dtype_text(t) + ", it must be f32 or f64");
  Layout wanted;
  const auto& shape = out.layout.shape;
  wanted.rank = out.layout.rank - 1;
  if (wanted.rank == 3) {
    wanted.shape = {shape[0], shape[2], shape[1]};
  } else {
    wanted.shape = {shape[1], shape[0]};
  }
  if (t.layout.rank != wanted.rank || t.layout.shape != wanted.shape) {
    refuse(std::string(t.name) + ": shape " + shape_text(t.layout) + ", it must be " + shape_text(wanted) +
           " for an out of shape " + shape_text(out.layout));
  }
}

void check_output(const Named& output, const std::array<const Named*, 5>& others, const Named& part_a, const Named& part_b) {
  if (overlaps_itself(output.layout)) {
    refuse(std::string(output.name) + ": shape " + shape_text(output.layout) + ", its elements must not share memory");
  }
  for (const Named* other : others) {
    const bool in_place =
        (other == &part_a || other == &part_b) && other->data == output.data && other->layout.same_place(output.layout);
    if (!in_place && overlap(output.layout, output.data, other->layout, other->data)) {
      refuse(std::string(output.name) + ": shares memory with " + other->name +
             ", it may only be the very tensor that is its part");
    }
  }
}

// e^x1 and e^x2 relative to their sum, and the log of the sum. A part at -inf counts nothing, whatever its output holds.
struct Weights {
  double a, b, lse;
};
Weights weigh(double lse_a, double lse_b) {
  constexpr double kNothing = -std::numeric_limits<double>::infinity();
  if (lse_b == kNothing) return {lse_a == kNothing ? 0.0 : 1.0, 0.0, lse_a};
  if (lse_a == kNothing) return {0.0, 1.0, lse_b};
  const double most = std::max(lse_a, lse_b);
  const double a = std::exp(lse_a - most);
  const double b = std::exp(lse_b - most);
  return {a / (a + b), b / (a + b), most + std::log(a + b)};
}

template <class Number>
void join_row(const void* a, const Layout& la, const void* b, const Layout& lb, void* to, const Layout& lo, const Weights& w) {
  std::array<Number, kPiece> x;
  std::array<Number, kPiece> y;
  const int last = lo.rank - 1;
  const auto wa = static_cast<Number>(w.a);
  const auto wb = static_cast<Number>(w.b);
  for (std::int64_t at = 0; at < lo.shape[last]; at += kPiece) {
    const std::int64_t n = std::min(kPiece, lo.shape[last] - at);
    x.fill(0);
    if (w.a != 0) load_row(core::advance(a, la.dtype, at * la.strides[last]), la.dtype, la.strides[last], n, x.data());
    if (w.b != 0) {
      load_row(core::advance(b, lb.dtype, at * lb.strides[last]), lb.dtype, lb.strides[last], n, y.data());
      for (std::int64_t i = 0; i < n; ++i) x[i] = w.a != 0 ? wa * x[i] + wb * y[i] : wb * y[i];
    } else {
      for (std::int64_t i = 0; i < n; ++i) x[i] *= wa;
    }
    store_row(x.data(), n, core::advance(to, lo.dtype, at * lo.strides[last]), lo.dtype, lo.strides[last]);
  }
}

// Joins rows [begin, end) of lse's elements in host memory.
void join_rows(const Parts& p, std::int64_t begin, std::int64_t end) {
  const int first = p.out.layout.rank - 3;
  const std::int64_t tokens = p.out.layout.shape[first];
  const std::int64_t heads = p.out.layout.shape[first + 1];
  const bool wide = p.out_a.layout.dtype == DHYAN_F64 || p.out_b.layout.dtype == DHYAN_F64;
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int64_t n = row % heads;
    const std::int64_t t = row / heads % tokens;
    const std::int64_t b = row / heads / tokens;
    const auto out_at = [&](const Layout& x) {
      return (first ? b * x.strides[0] : 0) + t * x.strides[first] + n * x.strides[first + 1];
    };
    const auto lse_at = [&](const Layout& x) {
      return (first ? b * x.strides[0] : 0) + n * x.strides[first] + t * x.strides[first + 1];
    };
    const auto lse_of = [&](const Named& x) { return core::load(x.data, x.layout.dtype, lse_at(x.layout)); };
    const Weights w = weigh(lse_of(p.lse_a), lse_of(p.lse_b));
    core::store(p.lse.data, p.lse.layout.dtype, lse_at(p.lse.layout), w.lse);
    if (p.out.layout.elements == 0) continue;
    const auto row_of = [&](const Named& x) { return core::advance(x.data, x.layout.dtype, out_at(x.layout)); };
    if (wide) {
      join_row<double>(row_of(p.out_a), p.out_a.layout, row_of(p.out_b), p.out_b.layout, row_of(p.out), p.out.layout, w);
    } else {
      join_row<float>(row_of(p.out_a), p.out_a.layout, row_of(p.out_b), p.out_b.layout, row_of(p.out), p.out.layout, w);
    }
  }
}

// The same on a device; missing batches are 1.
void join_on_device(const Parts& p, std::int32_t device, void* stream) {
  const int first = p.out.layout.rank - 3;
  const auto& shape = p.out.layout.shape;
  const auto view = [&](const Named& x, bool is_lse) {
    const auto& strides = x.layout.strides;
    const std::int64_t batch = first ? strides[0] : 0;
    if (is_lse) return cuda::View{x.data, x.layout.dtype, {batch, strides[first + 1], strides[first], 0}};
    return cuda::View{x.data, x.layout.dtype, {batch, strides[first], strides[first + 1], strides[first + 2]}};
  };
  cuda::merge({first ? shape[0] : 1, shape[first], shape[first + 1], shape[first + 2]},
              {view(p.out_a, false), view(p.lse_a, true), view(p.out_b, false), view(p.lse_b, true), view(p.out, false),
               view(p.lse, true)},
              device, stream);
}

}  // namespace

void merge(const dhyan_tensor* out_a, const dhyan_tensor* lse_a, const dhyan_tensor* out_b, const dhyan_tensor* lse_b,
           const dhyan_tensor* out, const dhyan_tensor* lse, void* stream) {
  const dhyan_tensor device = read(out_a, "out_a", offsetof(dhyan_tensor, alignment));
  const Parts p{named(out_a, "out_a", device), named(lse_a, "lse_a", device), named(out_b, "out_b", device),
                named(lse_b, "lse_b", device), named(out, "out", device),     named(lse, "lse", device)};
  for (const Named* t : {&p.out_a, &p.out_b, &p.out}) check_out(*t, p.out_a);
  for (const Named* t : {&p.lse_a, &p.lse_b, &p.lse}) check_lse(*t, p.out_a);
  require_stream(stream, device);
  const bool on_device = device.device_type == DHYAN_CUDA;
  for (const Named* t : {&p.out_a, &p.lse_a, &p.out_b, &p.lse_b, &p.out, &p.lse}) {
    check_pointer(t->layout, t->data, t->name);
    if (on_device && t->layout.elements > 0) cuda::check_pointer(t->data, t->name, device.device_index);
  }
  check_output(p.out, {&p.out_a, &p.lse_a, &p.out_b, &p.lse_b, &p.lse}, p.out_a, p.out_b);
  check_output(p.lse, {&p.out_a, &p.lse_a, &p.out_b, &p.lse_b, &p.out}, p.lse_a, p.lse_b);
  if (on_device) return join_on_device(p, device.device_index, stream);

  const std::int64_t rows = p.lse.layout.elements;
  const std::int64_t width = p.out.layout.shape[p.out.layout.rank - 1];
  const std::int64_t rows_per_task = std::max<std::int64_t>(1, kTask / std::max<std::int64_t>(1, width));
  const int threads = rows <= rows_per_task ? 1 : core::hardware_threads();
  core::parallel_for((rows + rows_per_task - 1) / rows_per_task, threads, [&](std::int64_t task, int) {
    join_rows(p, task * rows_per_task, std::min(rows, (task + 1) * rows_per_task));
  });
}

}  // namespace dhyan::api

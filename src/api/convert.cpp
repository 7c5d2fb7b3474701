// SPDX-License-Identifier: Apache-2.0
#include "api/convert.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

#include "api/abi.hpp"
#include "api/rows.hpp"
#include "api/tensor.hpp"
#include "core/parallel.hpp"
#include "cuda/device.hpp"

namespace dhyan::api {
namespace {

constexpr std::int64_t kPiece = 512;                    // elements converted at a time
constexpr std::int64_t kTask = std::int64_t{64} << 10;  // elements below which another thread does not pay

[[noreturn]] void refuse(const std::string& sentence) { throw core::Error(DHYAN_INVALID_ARGUMENT, sentence); }

Layout floating(const dhyan_tensor& t, const char* name) {
  const Layout layout = read_layout(t, name, true);
  if (layout.dtype < DHYAN_F64 || layout.dtype > DHYAN_BF16) {
    refuse(std::string(name) + ": dtype " + core::name_of(layout.dtype) + ", it must be f64, f32, f16 or bf16");
  }
  if (layout.elements == INT64_MAX) refuse(std::string(name) + ": shape " + shape_text(layout) + ", it has over 2^63 elements");
  return layout;
}

template <class Number>
void convert_row(const void* from, const Layout& s, void* to, const Layout& d, std::int64_t count) {
  std::array<Number, kPiece> piece;
  const int last = s.rank - 1;
  const std::int64_t s_stride = last < 0 ? 0 : s.strides[last];
  const std::int64_t d_stride = last < 0 ? 0 : d.strides[last];
  for (std::int64_t at = 0; at < count; at += kPiece) {
    const std::int64_t n = std::min(kPiece, count - at);
    load_row(core::advance(from, s.dtype, at * s_stride), s.dtype, s_stride, n, piece.data());
    store_row(piece.data(), n, core::advance(to, d.dtype, at * d_stride), d.dtype, d_stride);
  }
}

// As views of one shape; missing leading dimensions are 1.
void convert_on_device(const Layout& s, void* from, const Layout& d, void* to, std::int32_t device, void* stream) {
  cuda::Shape shape;
  shape.fill(1);
  cuda::View source{from, s.dtype, {}};
  cuda::View destination{to, d.dtype, {}};
  for (int i = 0; i < s.rank; ++i) {
    const int at = DHYAN_MAX_RANK - s.rank + i;
    shape[at] = s.shape[i];
    source.strides[at] = s.strides[i];
    destination.strides[at] = d.strides[i];
  }
  cuda::convert(shape, source, destination, device, stream);
}

}  // namespace

void convert(const dhyan_tensor* source_tensor, const dhyan_tensor* destination_tensor, void* stream) {
  const dhyan_tensor source = read(source_tensor, "source", offsetof(dhyan_tensor, alignment));
  const dhyan_tensor destination = read(destination_tensor, "destination", offsetof(dhyan_tensor, alignment));
  const Layout s = floating(source, "source");
  const Layout d = floating(destination, "destination");
  require_device(destination, "destination", source, "source");
  if (s.rank != d.rank || s.shape != d.shape) {
    refuse("destination: shape " + shape_text(d) + ", it must be the source's, " + shape_text(s));
  }
  require_stream(stream, source);
  if (s.elements == 0) return;
  check_pointer(s, source.data, "source");
  check_pointer(d, destination.data, "destination");
  if (overlaps_itself(d)) refuse("destination: shape " + shape_text(d) + ", its elements must not share memory");
  if (overlap(s, source.data, d, destination.data)) refuse("destination: shares memory with source, it must not overlap it");
  if (source.device_type == DHYAN_CUDA) {
    cuda::check_pointer(source.data, "source", source.device_index);
    cuda::check_pointer(destination.data, "destination", source.device_index);
    return convert_on_device(s, source.data, d, destination.data, source.device_index, stream);
  }

  const std::int64_t row = s.rank == 0 ? 1 : s.shape[s.rank - 1];
  const std::int64_t rows = s.elements / row;
  const std::int64_t rows_per_task = std::max<std::int64_t>(1, kTask / row);
  const int threads = s.elements <= kTask ? 1 : core::hardware_threads();
  core::parallel_for((rows + rows_per_task - 1) / rows_per_task, threads, [&](std::int64_t task, int) {
    const std::int64_t end = std::min(rows, (task + 1) * rows_per_task);
    for (std::int64_t r = task * rows_per_task; r < end; ++r) {
      std::int64_t s_at = 0;
      std::int64_t d_at = 0;
      std::int64_t rest = r;
      for (int i = s.rank - 2; i >= 0; --i) {
        const std::int64_t index = rest % s.shape[i];
        rest /= s.shape[i];
        s_at += index * s.strides[i];
        d_at += index * d.strides[i];
      }
      const void* from = core::advance(static_cast<const void*>(source.data), s.dtype, s_at);
      void* to = core::advance(destination.data, d.dtype, d_at);
      if (s.dtype == DHYAN_F64) {
        convert_row<double>(from, s, to, d, row);
      } else {
        convert_row<float>(from, s, to, d, row);
      }
    }
  });
}

}  // namespace dhyan::api

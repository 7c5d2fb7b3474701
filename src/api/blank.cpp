// SPDX-License-Identifier: Apache-2.0
#include "api/blank.hpp"

#include <cstring>

#include "core/convert.hpp"
#include "cuda/device.hpp"

namespace dhyan::api {
namespace {

// All-zero bytes are 0 in every element type. Rows of the last dimension are contiguous.
void fill_zero(const Layout& layout, std::byte* data, int dimension) {
  const auto element = static_cast<std::int64_t>(core::size_of(layout.dtype));
  if (dimension >= layout.rank - 1) {
    const std::int64_t run = layout.rank == 0 ? 1 : layout.shape[layout.rank - 1];
    std::memset(data, 0, static_cast<std::size_t>(run * element));
    return;
  }
  for (std::int64_t i = 0; i < layout.shape[dimension]; ++i) {
    fill_zero(layout, data + i * layout.strides[dimension] * element, dimension + 1);
  }
}

void fill_zero_on_device(const Layout& layout, void* data, std::int32_t device, void* stream) {
  cuda::Shape shape;
  shape.fill(1);
  cuda::View view{data, layout.dtype, {}};
  for (int i = 0; i < layout.rank; ++i) {
    const int at = DHYAN_MAX_RANK - layout.rank + i;
    shape[at] = layout.shape[i];
    view.strides[at] = layout.strides[i];
  }
  cuda::zero(shape, view, device, stream);
}

class Blank : public core::Executable {
 public:
  Blank(const core::Problem& problem, const std::array<Layout, kSlots>& layouts)
      : direction_(problem.direction),
        device_type_(problem.device_type),
        device_index_(problem.device_index),
        layouts_(layouts) {}

  void run(const core::Buffers& buffers, void*, void* stream) const override {
    const Pointers pointers = pointers_of(buffers);
    for (std::size_t i = 0; i < kSlots; ++i) {
      if (!is_output(static_cast<Slot>(i), direction_) || layouts_[i].elements == 0) continue;
      void* data = const_cast<void*>(pointers[i]);
      if (device_type_ == DHYAN_CPU) {
        fill_zero(layouts_[i], static_cast<std::byte*>(data), 0);
      } else {
        fill_zero_on_device(layouts_[i], data, device_index_, stream);
      }
    }
  }
  std::size_t scratch_bytes() const override { return 0; }
  std::string describe() const override { return "no queries: gradients are written 0"; }

 private:
  dhyan_direction direction_;
  dhyan_device_type device_type_;
  std::int32_t device_index_;
  std::array<Layout, kSlots> layouts_;
};

}  // namespace

// A packing without sequences still has rows, all of them gaps: that is an implementation's to write.
bool has_queries(const core::Problem& p) { return (p.packed || p.batch > 0) && p.query_heads > 0 && p.query_tokens > 0; }

std::unique_ptr<core::Executable> plan_blank(const core::Problem& problem, const std::array<Layout, kSlots>& layouts) {
  return std::make_unique<Blank>(problem, layouts);
}

}  // namespace dhyan::api

// SPDX-License-Identifier: Apache-2.0
#include "api/tensor.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include "core/convert.hpp"
#include "core/error.hpp"
#include "cuda/device.hpp"

namespace dhyan::api {
namespace {

using Wide = __int128;

constexpr std::int64_t kMaxBytes = INT64_MAX / 4;
constexpr std::int32_t kMaxAlignment = 4096;

[[noreturn]] void refuse(const char* name, const std::string& rest) {
  throw core::Error(DHYAN_INVALID_ARGUMENT, std::string(name) + ": " + rest);
}

void check_dtype(const dhyan_tensor& t, const char* name) {
  if (t.dtype == DHYAN_E4M3 || t.dtype == DHYAN_E5M2) {
    throw core::Error(DHYAN_UNSUPPORTED, std::string(name) + ": dtype " + core::name_of(t.dtype) +
                                             ", FP8 attention is not built yet; bf16, f16, f32 and f64 are");
  }
  if (t.dtype == DHYAN_NONE) refuse(name, "dtype none, a tensor that is given needs its element type");
  if (core::size_of(t.dtype) == 0) {
    refuse(name, "dtype " + std::to_string(t.dtype) + ", it must be one of the DHYAN_ element types");
  }
}

void check_alignment(const dhyan_tensor& t, const char* name) {
  if (t.alignment == 0) return;
  const auto element = static_cast<std::int32_t>(core::size_of(t.dtype));
  if (t.alignment < element || t.alignment > kMaxAlignment || (t.alignment & (t.alignment - 1)) != 0) {
    refuse(name, "alignment " + std::to_string(t.alignment) + ", it must be 0 or a power of two from " +
                     std::to_string(element) + " (the element's size) to " + std::to_string(kMaxAlignment));
  }
}

// One variable of the equation below: `stride * x` for x in [low, high].
struct Term {
  std::int64_t stride;
  std::int64_t low;
  std::int64_t high;
};

// Searches for x with |offset + sum of stride * x| inside (-below, above), largest strides first: the rest can only make up for
// a narrow range of each, so well-nested views take a step or two per dimension.
class Search {
 public:
  Search(std::vector<Term> terms, std::int64_t below, std::int64_t above)
      : terms_(std::move(terms)), below_(below), above_(above) {
    std::sort(terms_.begin(), terms_.end(), [](const Term& a, const Term& b) { return a.stride > b.stride; });
    lowest_.assign(terms_.size() + 1, 0);
    highest_.assign(terms_.size() + 1, 0);
    divisor_.assign(terms_.size() + 1, 0);
    for (std::size_t i = terms_.size(); i-- > 0;) {
      lowest_[i] = lowest_[i + 1] + Wide{terms_[i].stride} * terms_[i].low;
      highest_[i] = highest_[i + 1] + Wide{terms_[i].stride} * terms_[i].high;
      divisor_[i] = std::gcd(divisor_[i + 1], terms_[i].stride);
    }
  }

  bool found(Wide offset) { return visit(0, offset); }

 private:
  static Wide floor_divide(Wide a, Wide b) { return a / b - ((a % b != 0 && a < 0) ? 1 : 0); }

  bool visit(std::size_t i, Wide value) {
    if (++steps_ > kMaxSteps) return true;
    // Some value + rest must lie in [1 - below, above - 1].
    if (value + highest_[i] <= -below_ || value + lowest_[i] >= above_) return false;
    if (i == terms_.size()) return true;
    const Wide step = divisor_[i];
    const Wide nearest = value - floor_divide(value + below_ - 1, step) * step;  // smallest of value + k * step above -below
    if (nearest >= above_) return false;
    const Term& term = terms_[i];
    const Wide low = std::max<Wide>(term.low, -floor_divide(value + highest_[i + 1] + below_ - 1, term.stride));
    const Wide high = std::min<Wide>(term.high, floor_divide(above_ - 1 - value - lowest_[i + 1], term.stride));
    for (Wide x = low; x <= high; ++x) {
      if (visit(i + 1, value + x * term.stride)) return true;
    }
    return false;
  }

  static constexpr int kMaxSteps = 100000;
  std::vector<Term> terms_;
  std::int64_t below_;
  std::int64_t above_;
  std::vector<Wide> lowest_, highest_;
  std::vector<std::int64_t> divisor_;
  int steps_ = 0;
};

// Bytes of the contiguous run that the last dimension is; the dimensions before it become terms of the search.
std::int64_t run_bytes(const Layout& layout) {
  const auto element = static_cast<std::int64_t>(core::size_of(layout.dtype));
  if (layout.rank == 0 || layout.strides[layout.rank - 1] != 1) return element;
  return layout.shape[layout.rank - 1] * element;
}

void add_terms(const Layout& layout, bool negate, std::vector<Term>& terms) {
  const auto element = static_cast<std::int64_t>(core::size_of(layout.dtype));
  for (int i = 0; i < layout.rank; ++i) {
    const bool run = i == layout.rank - 1 && layout.strides[i] == 1;
    if (run || layout.strides[i] == 0) continue;
    const std::int64_t stride = layout.strides[i] * element;
    const std::int64_t last = layout.shape[i] - 1;
    const auto same = std::find_if(terms.begin(), terms.end(), [&](const Term& term) { return term.stride == stride; });
    Term& term = same == terms.end() ? terms.emplace_back(Term{stride, 0, 0}) : *same;
    (negate ? term.low : term.high) += negate ? -last : last;
  }
}

}  // namespace

void check_device(const dhyan_tensor& t, const char* name) {
  if (t.device_type == DHYAN_CUDA) {
    const std::string reason = cuda::refusal(t.device_index);
    if (reason.empty()) return;
    throw core::Error(DHYAN_UNSUPPORTED, std::string(name) + ": device " + device_text(t.device_type, t.device_index) + ", " +
                                             reason + "; use tensors in host memory");
  }
  if (t.device_type != DHYAN_CPU) {
    refuse(name, "device_type " + std::to_string(t.device_type) + ", it must be DHYAN_CPU or DHYAN_CUDA");
  }
  if (t.device_index != 0) refuse(name, "device_index " + std::to_string(t.device_index) + ", the CPU has index 0 only");
}

void require_device(const dhyan_tensor& t, const char* name, const dhyan_tensor& first, const char* first_name) {
  check_device(t, name);
  if (t.device_type == first.device_type && t.device_index == first.device_index) return;
  refuse(name, "device " + device_text(t.device_type, t.device_index) + ", " + first_name + " is on " +
                   device_text(first.device_type, first.device_index) + "; all tensors must be on one device");
}

void require_stream(void* stream, const dhyan_tensor& first) {
  if (first.device_type == DHYAN_CUDA) return cuda::check_stream(stream, first.device_index);
  if (stream != nullptr) refuse("stream", "not NULL, a CPU has no streams");
}

std::string device_text(dhyan_device_type type, std::int32_t index) {
  return type == DHYAN_CPU ? "cpu" : "cuda:" + std::to_string(index);
}

std::string shape_text(const Layout& layout) {
  std::string text = "[";
  for (int i = 0; i < layout.rank; ++i) text += (i ? ", " : "") + std::to_string(layout.shape[i]);
  return text + "]";
}

Layout read_layout(const dhyan_tensor& t, const char* name, bool any_last_stride) {
  check_dtype(t, name);
  check_device(t, name);
  if (t.rank < 0 || t.rank > DHYAN_MAX_RANK) {
    refuse(name, "rank " + std::to_string(t.rank) + ", at most " + std::to_string(DHYAN_MAX_RANK) + " is allowed");
  }
  if (t.reserved != 0) refuse(name, "reserved is " + std::to_string(t.reserved) + ", it must be 0");
  check_alignment(t, name);

  Layout layout;
  layout.dtype = t.dtype;
  layout.rank = t.rank;
  layout.alignment = t.alignment;
  layout.elements = 1;
  for (int i = 0; i < t.rank; ++i) {
    const std::int64_t size = t.shape[i];
    if (size < 0 || size > kMaxDimension) {
      refuse(name, "size " + std::to_string(size) + " of dimension " + std::to_string(i) + ", it must be 0 to 2^40");
    }
    layout.shape[i] = size;
    if (__builtin_mul_overflow(layout.elements, size, &layout.elements)) layout.elements = INT64_MAX;
  }
  if (std::find(layout.shape.begin(), layout.shape.begin() + t.rank, 0) != layout.shape.begin() + t.rank) {
    layout.elements = 0;
    return layout;
  }

  Wide last = 0;
  for (int i = 0; i < t.rank; ++i) {
    if (layout.shape[i] == 1) continue;
    const std::int64_t stride = t.strides[i];
    if (stride < 0) {
      refuse(name, "stride " + std::to_string(stride) + " of dimension " + std::to_string(i) + ", it must not be negative");
    }
    if (i == t.rank - 1 && stride != 1 && !any_last_stride) {
      refuse(name, "stride " + std::to_string(stride) + " of the last dimension, it must be 1 (contiguous)");
    }
    layout.strides[i] = stride;
    last += Wide{layout.shape[i] - 1} * stride;
  }
  const Wide bytes = (last + 1) * static_cast<Wide>(core::size_of(t.dtype));
  if (bytes > kMaxBytes) {
    refuse(name, "shape " + shape_text(layout) + " with its strides reaches past 2^61 bytes, no memory is that large");
  }
  layout.bytes = static_cast<std::int64_t>(bytes);
  return layout;
}

std::int32_t row_alignment(const Layout& layout, std::int32_t most) {
  const auto element = static_cast<std::int64_t>(core::size_of(layout.dtype));
  std::int64_t bits = most;
  for (int i = 0; i + 1 < layout.rank; ++i) bits |= layout.strides[i] * element;
  return static_cast<std::int32_t>(std::max(element, bits & -bits));
}

void check_pointer(const Layout& layout, const void* data, const char* name) {
  if (layout.elements == 0) return;
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  if (address == 0) refuse(name, "NULL, a tensor with elements needs its pointer");
  const auto needed = std::max<std::uintptr_t>(layout.alignment, core::size_of(layout.dtype));
  if (address % needed != 0) {
    refuse(name, "pointer aligned to " + std::to_string(address & (~address + 1)) + " bytes, it must be aligned to " +
                     std::to_string(needed));
  }
}

bool overlaps_itself(const Layout& layout) {
  if (layout.elements == 0) return false;
  std::vector<std::pair<std::int64_t, std::int64_t>> dims;  // stride, size
  for (int i = 0; i < layout.rank; ++i) {
    if (layout.shape[i] > 1) dims.emplace_back(layout.strides[i], layout.shape[i]);
  }
  std::sort(dims.begin(), dims.end());
  std::int64_t covered = 1;
  for (const auto& [stride, size] : dims) {
    if (stride < covered) return true;
    covered += stride * (size - 1);
  }
  return false;
}

bool overlap(const Layout& a, const void* a_data, const Layout& b, const void* b_data) {
  if (a.elements == 0 || b.elements == 0) return false;
  const auto a_begin = reinterpret_cast<std::uintptr_t>(a_data);
  const auto b_begin = reinterpret_cast<std::uintptr_t>(b_data);
  const bool after = a_begin >= b_begin + static_cast<std::uintptr_t>(b.bytes);
  const bool before = b_begin >= a_begin + static_cast<std::uintptr_t>(a.bytes);
  if (after || before) return false;
  // a's run at offset + x and b's run at y share a byte iff -a_run < a_start - b_start < b_run.
  std::vector<Term> terms;
  add_terms(a, false, terms);
  add_terms(b, true, terms);
  return Search(std::move(terms), run_bytes(a), run_bytes(b)).found(Wide{a_begin} - Wide{b_begin});
}

}  // namespace dhyan::api

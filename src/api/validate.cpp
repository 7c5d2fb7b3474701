// SPDX-License-Identifier: Apache-2.0
#include "api/validate.hpp"

#include <algorithm>
#include <bit>
#include <initializer_list>
#include <string>

#include "api/abi.hpp"
#include "api/options.hpp"
#include "core/convert.hpp"
#include "core/error.hpp"

namespace dhyan::api {
namespace {

constexpr std::int32_t kDefaultAlignment = 16;
constexpr std::int64_t kMaxHeadDim = 512;
constexpr std::int64_t kMaxHeads = INT32_MAX;

[[noreturn]] void refuse(const char* name, const std::string& value, const std::string& rule) {
  throw core::Error(DHYAN_INVALID_ARGUMENT, std::string(name) + ": " + value + ", " + rule);
}

bool is_floating(dhyan_dtype dtype) { return dtype >= DHYAN_F64 && dtype <= DHYAN_BF16; }

// Lengths, offsets, sink and slopes are read one by one: no more than their element's alignment is ever needed.
bool read_by_element(Slot slot) { return slot >= kAlibiSlopes && slot <= kKeyOffsets; }

// A dimension that a shape must have, and what it is called.
struct Dim {
  std::int64_t size;
  const char* name;
};

class Validator {
 public:
  Validator(const dhyan_problem& from, dhyan_direction direction, const dhyan_device_description& device, bool one_shot)
      : one_shot_(one_shot) {
    p().direction = direction;
    p().device_type = device.device_type;
    p().device_index = device.device_index;
    read_tensors(from);
    read_sizes();
    const dhyan_options options = from.options ? read(from.options, "options") : defaults<dhyan_options>();
    read_lengths(options);
    apply_options(options, device, p());
    check_size();
    check_tensors();
    fill_operands();
  }

  const Validated& result() const { return v_; }

 private:
  core::Problem& p() { return v_.problem; }
  const Layout& at(Slot slot) const { return v_.layouts[slot]; }
  bool has(Slot slot) const { return at(slot).present(); }
  bool backward() const { return v_.problem.direction == DHYAN_BACKWARD; }
  static const char* name(Slot slot) { return kSlotRows[slot].name; }

  void read_tensors(const dhyan_problem& from) {
    for (std::size_t i = 0; i < kSlots; ++i) {
      const SlotRow& row = kSlotRows[i];
      const dhyan_tensor* view = from.*row.view;
      if (view == nullptr) continue;
      if (row.backward_only && !backward()) {
        refuse(row.name, "given to a forward problem", "only a backward one has it; leave it NULL");
      }
      const dhyan_tensor tensor = read(view, row.name, offsetof(dhyan_tensor, alignment));
      v_.layouts[i] = read_layout(tensor, row.name);
      if (tensor.device_type != p().device_type || tensor.device_index != p().device_index) {
        refuse(
            row.name, "device " + device_text(tensor.device_type, tensor.device_index),
            "the problem is on " + device_text(p().device_type, p().device_index) + "; all its tensors must be on one device");
      }
      v_.pointers[i] = tensor.data;
    }
  }

  void require(Slot slot, const char* rule) {
    if (!has(slot)) refuse(name(slot), "NULL", rule);
  }

  void check_dtype(Slot slot, dhyan_dtype wanted, const std::string& rule) {
    if (at(slot).dtype != wanted) refuse(name(slot), std::string("dtype ") + core::name_of(at(slot).dtype), rule);
  }

  void check_shape(Slot slot, std::initializer_list<Dim> dims) {
    const Layout& layout = at(slot);
    if (layout.rank != static_cast<int>(dims.size())) {
      std::string wanted = "[";
      for (const Dim& dim : dims) wanted += (wanted.size() > 1 ? ", " : "") + std::string(dim.name);
      refuse(name(slot), "shape " + shape_text(layout),
             "it must have the " + std::to_string(dims.size()) + (dims.size() == 1 ? " dimension " : " dimensions ") + wanted +
                 "]");
    }
    int i = 0;
    for (const Dim& dim : dims) {
      if (layout.shape[i] != dim.size) {
        refuse(name(slot), "shape " + shape_text(layout),
               "dimension " + std::to_string(i) + " (" + dim.name + ") must be " + std::to_string(dim.size));
      }
      ++i;
    }
  }

  // Batch, lengths, heads and head dimensions, from query, key and value.
  void read_sizes() {
    require(kQuery, "a problem needs it");
    require(kKey, "a problem needs it");
    require(kValue, "a problem needs it");
    const Layout& query = at(kQuery);
    const Layout& key = at(kKey);
    const Layout& value = at(kValue);
    if (!is_floating(query.dtype)) {
      refuse("query", std::string("dtype ") + core::name_of(query.dtype), "it must be f64, f32, f16 or bf16");
    }
    p().dtype = query.dtype;
    if (has(kQueryOffsets) != has(kKeyOffsets)) {
      refuse(has(kQueryOffsets) ? "key_offsets" : "query_offsets", "NULL", "packed sequences need both offsets");
    }
    p().packed = has(kQueryOffsets);
    const int rank = p().packed ? 3 : 4;
    for (const Slot slot : {kQuery, kKey, kValue}) {
      if (at(slot).rank != rank) {
        refuse(name(slot), "shape " + shape_text(at(slot)),
               p().packed ? "packed sequences (offsets given) have 3 dimensions [tokens, heads, head_dim]"
                          : "it must have 4 dimensions [batch, length, heads, head_dim] (packed sequences: give offsets)");
      }
    }
    const int first = rank - 3;
    p().batch = p().packed ? batch_of_offsets() : query.shape[0];
    p().query_tokens = query.shape[first];
    p().query_heads = query.shape[first + 1];
    p().head_dim = query.shape[first + 2];
    p().key_tokens = key.shape[first];
    p().key_heads = key.shape[first + 1];
    p().value_head_dim = value.shape[first + 2];

    check_range("query", query, "heads", p().query_heads, kMaxHeads);
    check_range("key", key, "heads", p().key_heads, kMaxHeads);
    check_range("query", query, "head_dim", p().head_dim, kMaxHeadDim);
    check_range("value", value, "head_dim", p().value_head_dim, kMaxHeadDim);
    check_like_query(kKey, {p().key_tokens, "key length"}, {p().key_heads, "key heads"}, {p().head_dim, "query's head_dim"});
    check_like_query(kValue, {p().key_tokens, "key length"}, {p().key_heads, "key heads"},
                     {p().value_head_dim, "value head_dim"});
    if (p().key_heads == 0 ? p().query_heads != 0 : p().query_heads % p().key_heads != 0) {
      refuse("key", "shape " + shape_text(key),
             "its " + std::to_string(p().key_heads) + " heads must divide the query's " + std::to_string(p().query_heads));
    }
  }

  static void check_range(const char* name, const Layout& layout, const char* what, std::int64_t size, std::int64_t most) {
    if (size > most)
      refuse(name, "shape " + shape_text(layout), std::string(what) + " must be at most " + std::to_string(most));
  }

  std::int64_t batch_of_offsets() {
    for (const Slot slot : {kQueryOffsets, kKeyOffsets}) {
      if (at(slot).rank != 1 || at(slot).shape[0] < 1) {
        refuse(name(slot), "shape " + shape_text(at(slot)), "it must be [batch + 1]");
      }
    }
    check_shape(kKeyOffsets, {{at(kQueryOffsets).shape[0], "batch + 1, as query_offsets has"}});
    return at(kQueryOffsets).shape[0] - 1;
  }

  // [batch,] tokens, heads, dim and the query's dtype.
  void check_like_query(Slot slot, Dim tokens, Dim heads, Dim dim) {
    check_dtype(slot, p().dtype, std::string("it must be the query's, ") + core::name_of(p().dtype));
    if (p().packed) {
      check_shape(slot, {tokens, heads, dim});
    } else {
      check_shape(slot, {{p().batch, "batch"}, tokens, heads, dim});
    }
  }

  // The longest sequence on each side, and the tensors that say how long each is.
  void read_lengths(const dhyan_options& options) {
    const auto longest = [&](const char* name, std::int64_t asked, std::int64_t tokens) {
      if (asked < 0 || asked > kMaxDimension) refuse(name, std::to_string(asked), "it must be 0 to 2^40");
      if (asked != 0 && !p().packed) refuse(name, std::to_string(asked), "only packed sequences have it; leave it 0");
      return asked == 0 ? tokens : asked;
    };
    p().query_length = longest("max_query_length", options.max_query_length, p().query_tokens);
    p().key_length = longest("max_key_length", options.max_key_length, p().key_tokens);
    for (const Slot slot : {kQueryLengths, kKeyLengths}) {
      if (!has(slot)) continue;
      check_dtype(slot, DHYAN_I32, "it must be i32");
      check_shape(slot, {{p().batch, "batch"}});
    }
    for (const Slot slot : {kQueryOffsets, kKeyOffsets}) {
      if (has(slot) && at(slot).dtype != DHYAN_I64) check_dtype(slot, DHYAN_I32, "it must be i32 or i64");
    }
  }

  void check_tensors() {
    const char* both = backward() ? "the backward pass reads the forward's" : "a problem needs it";
    require(kOut, both);
    check_out(kOut);
    if (backward()) {
      require(kLse, both);
      require(kGradOut, "the backward pass needs it");
      check_out(kGradOut);
      if (!has(kGradQuery) && !has(kGradKey) && !has(kGradValue) && !has(kGradBias) && !has(kGradSink)) {
        refuse("grad_query", "NULL", "the backward pass needs at least one gradient to write");
      }
    }
    for (const Slot slot : {kLse, kGradLse}) {
      if (has(slot)) check_lse(slot);
    }
    if (has(kGradQuery)) {
      check_like_query(kGradQuery, {p().query_tokens, "query length"}, {p().query_heads, "query heads"},
                       {p().head_dim, "head_dim"});
    }
    if (has(kGradKey)) {
      check_like_query(kGradKey, {p().key_tokens, "key length"}, {p().key_heads, "key heads"}, {p().head_dim, "head_dim"});
    }
    if (has(kGradValue)) {
      check_like_query(kGradValue, {p().key_tokens, "key length"}, {p().key_heads, "key heads"},
                       {p().value_head_dim, "value head_dim"});
    }
    check_scores();
    check_heads();
    for (std::size_t i = 0; i < kSlots; ++i) {
      const auto slot = static_cast<Slot>(i);
      if (is_output(slot, p().direction) && overlaps_itself(at(slot))) {
        refuse(name(slot), "shape " + shape_text(at(slot)) + " with strides " + stride_text(at(slot)),
               "elements of an output must not share memory");
      }
    }
  }

  static std::string stride_text(const Layout& layout) {
    Layout strides = layout;
    strides.shape = layout.strides;
    return shape_text(strides);
  }

  void check_out(Slot slot) {
    check_like_query(slot, {p().query_tokens, "query length"}, {p().query_heads, "query heads"},
                     {p().value_head_dim, "value head_dim"});
  }

  void check_lse(Slot slot) {
    const bool wide = p().dtype == DHYAN_F64;
    check_dtype(slot, wide ? DHYAN_F64 : DHYAN_F32,
                std::string("it must be ") + (wide ? "f64" : "f32") + " for " + core::name_of(p().dtype) + " inputs");
    const Dim heads{p().query_heads, "query heads"};
    const Dim tokens{p().query_tokens, "query length"};
    if (p().packed) {
      check_shape(slot, {heads, tokens});
    } else {
      check_shape(slot, {{p().batch, "batch"}, heads, tokens});
    }
  }

  // bias and mask broadcast to [batch, query heads, query length, key length].
  void check_broadcast(Slot slot) {
    const std::array<Dim, 4> whole = {{{p().batch, "batch"},
                                       {p().query_heads, "query heads"},
                                       {p().query_length, "query length"},
                                       {p().key_length, "key length"}}};
    const Layout& layout = at(slot);
    for (int i = 0; i < layout.rank; ++i) {
      const Dim& dim = whole[i + 4 - layout.rank];
      if (layout.shape[i] != 1 && layout.shape[i] != dim.size) {
        refuse(name(slot), "shape " + shape_text(layout),
               "dimension " + std::to_string(i) + " (" + dim.name + ") must be 1 or " + std::to_string(dim.size));
      }
    }
  }

  void check_scores() {
    if (has(kMask)) {
      check_dtype(kMask, DHYAN_BOOL, "it must be bool");
      check_broadcast(kMask);
    }
    if (has(kBias)) {
      if (!is_floating(at(kBias).dtype)) {
        refuse("bias", std::string("dtype ") + core::name_of(at(kBias).dtype), "it must be f64, f32, f16 or bf16");
      }
      check_broadcast(kBias);
    }
    if (has(kGradBias)) {
      if (!has(kBias)) refuse("grad_bias", "given without a bias", "there is nothing to take the gradient of");
      check_dtype(kGradBias, at(kBias).dtype, std::string("it must be the bias's, ") + core::name_of(at(kBias).dtype));
      if (at(kGradBias).rank != at(kBias).rank || at(kGradBias).shape != at(kBias).shape) {
        refuse("grad_bias", "shape " + shape_text(at(kGradBias)), "it must be the bias's, " + shape_text(at(kBias)));
      }
    }
  }

  void check_heads() {
    const Dim heads{p().query_heads, "query heads"};
    if (has(kAlibiSlopes)) {
      check_dtype(kAlibiSlopes, DHYAN_F32, "it must be f32");
      if (at(kAlibiSlopes).rank == 2) {
        check_shape(kAlibiSlopes, {{p().batch, "batch"}, heads});
      } else {
        check_shape(kAlibiSlopes, {heads});
      }
    }
    if (has(kSink)) {
      check_dtype(kSink, DHYAN_F32, "it must be f32");
      check_shape(kSink, {heads});
    }
    if (has(kGradSink)) {
      if (!has(kSink)) refuse("grad_sink", "given without a sink", "there is nothing to take the gradient of");
      const bool wide = p().dtype == DHYAN_F64;
      check_dtype(kGradSink, wide ? DHYAN_F64 : DHYAN_F32,
                  std::string("it must be ") + (wide ? "f64" : "f32") + " for " + core::name_of(p().dtype) + " inputs");
      check_shape(kGradSink, {heads});
    }
  }

  // Counts of scores and elements, and bytes of an f64 copy of any, must fit 64 bits whatever an implementation multiplies.
  void check_size() {
    const std::int64_t dim = std::max(p().head_dim, p().value_head_dim);
    check_product("batch * query heads * query length * key length",
                  {p().batch, p().query_heads, p().query_length, p().key_length});
    check_product("batch * query heads * query length * head_dim", {p().batch, p().query_heads, p().query_length, dim});
    check_product("batch * key heads * key length * head_dim", {p().batch, p().key_heads, p().key_length, dim});
  }

  void check_product(const char* what, std::initializer_list<std::int64_t> sizes) {
    constexpr std::int64_t kMost = std::int64_t{1} << 58;
    std::int64_t product = 1;
    for (const std::int64_t size : sizes) {
      if (!__builtin_mul_overflow(product, std::max<std::int64_t>(size, 1), &product) && product <= kMost) continue;
      refuse("query", "shape " + shape_text(at(kQuery)) + " with a key of shape " + shape_text(at(kKey)),
             std::string(what) + " must be at most 2^58" +
                 (p().packed ? " (max_query_length and max_key_length bound the lengths)" : ""));
    }
  }

  void fill_operands() {
    for (std::size_t i = 0; i < kSlots; ++i) {
      const auto slot = static_cast<Slot>(i);
      Layout& layout = v_.layouts[i];
      if (!layout.present()) continue;
      layout.alignment = alignment_of(slot);
      core::Operand& operand = p().*kSlotRows[i].operand;
      operand.dtype = layout.dtype;
      operand.alignment = layout.alignment;
      // Operands name their dimensions from the batch on; what a packed or broadcast tensor lacks in front has stride 0.
      const int first = leading(slot);
      for (int d = 0; d < layout.rank; ++d) {
        if (d + first < 4) operand.strides[d + first] = layout.strides[d];
      }
    }
    if (has(kBias)) {
      p().bias_shape = {1, 1, 1, 1};
      std::copy_n(at(kBias).shape.begin(), at(kBias).rank, p().bias_shape.begin() + 4 - at(kBias).rank);
    }
  }

  // How many dimensions of the operand come before the tensor's first.
  int leading(Slot slot) const {
    const Layout& layout = at(slot);
    switch (slot) {
      case kBias:
      case kMask:
      case kGradBias:
        return 4 - layout.rank;
      case kLse:
      case kGradLse:
        return 3 - layout.rank;
      case kAlibiSlopes:
        return 2 - layout.rank;
      case kSink:
      case kGradSink:
      case kQueryLengths:
      case kKeyLengths:
      case kQueryOffsets:
      case kKeyOffsets:
        return 0;
      default:
        return 4 - layout.rank;
    }
  }

  std::int32_t alignment_of(Slot slot) const {
    const Layout& layout = at(slot);
    if (layout.alignment != 0) return layout.alignment;
    const auto element = static_cast<std::int32_t>(core::size_of(layout.dtype));
    if (read_by_element(slot)) return element;
    const std::int32_t most = row_alignment(layout, kDefaultAlignment);
    const auto address = reinterpret_cast<std::uintptr_t>(v_.pointers[slot]);
    if (!one_shot_ || address == 0 || layout.elements == 0) return most;
    const auto actual = static_cast<std::int32_t>(std::min<std::uintptr_t>(address & (~address + 1), kDefaultAlignment));
    return std::max(element, std::min(most, actual));  // below the element's size: refused with the pointers
  }

  bool one_shot_;
  Validated v_;
};

}  // namespace

Validated validate(const dhyan_problem* problem, dhyan_direction direction, const dhyan_device_description& device,
                   bool one_shot) {
  if (direction != DHYAN_FORWARD && direction != DHYAN_BACKWARD) {
    refuse("direction", std::to_string(direction), "it must be DHYAN_FORWARD or DHYAN_BACKWARD");
  }
  return Validator(read(problem, "problem"), direction, device, one_shot).result();
}

void check_pointers(const std::array<Layout, kSlots>& layouts, const Pointers& pointers) {
  for (std::size_t i = 0; i < kSlots; ++i) {
    if (layouts[i].present()) {
      check_pointer(layouts[i], pointers[i], kSlotRows[i].name);
    } else if (pointers[i] != nullptr) {
      refuse(kSlotRows[i].name, "a pointer is given", "the plan has no such tensor; leave it NULL");
    }
  }
}

void check_overlaps(const std::array<Layout, kSlots>& layouts, const Pointers& pointers, dhyan_direction direction) {
  for (std::size_t i = 0; i < kSlots; ++i) {
    if (!layouts[i].present() || !is_output(static_cast<Slot>(i), direction)) continue;
    for (std::size_t j = 0; j < kSlots; ++j) {
      const bool counted_before = j < i && is_output(static_cast<Slot>(j), direction);
      if (i == j || counted_before || !layouts[j].present()) continue;
      if (overlap(layouts[i], pointers[i], layouts[j], pointers[j])) {
        refuse(kSlotRows[i].name, std::string("shares memory with ") + kSlotRows[j].name,
               "an output must not overlap any other tensor");
      }
    }
  }
}

}  // namespace dhyan::api

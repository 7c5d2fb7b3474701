// SPDX-License-Identifier: Apache-2.0
/**
 * @file nn.hpp
 * @brief Attention as a module, with the arguments that users of TransformerEngine's flax DotProductAttention know.
 *
 * A module fixes once what does not change from call to call: heads, mask, scale, window, layout. Every call then becomes one
 * dhyan::Problem, and dhyan::attention or dhyan::attention_backward runs it: same rules, same bits.
 *
 * @code
 *   const dhyan::nn::DotProductAttention module({.head_dim = 64, .num_attention_heads = 8, .num_gqa_groups = 2});
 *   module(query, key, value, out);  // causal: the module's default
 * @endcode
 */
#ifndef DHYAN_NN_HPP
#define DHYAN_NN_HPP

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "dhyan/dhyan.hpp"

namespace dhyan::nn {

/// Which keys a query sees. Source: attn_mask_type of transformer_engine.jax.flax.DotProductAttention. Causal alone is
/// top-left: query t sees keys s <= t. Bottom-right lets the last query see the last key: s <= t + key length - query length.
/// With padding the lengths are each batch entry's own, and what lies past them counts for nothing.
enum class AttnMaskType { no_mask, padding, causal, padding_causal, causal_bottom_right, padding_causal_bottom_right };

/// One spelling of a mask type.
struct AttnMaskSpelling {
  std::string_view text;
  AttnMaskType type;
};

/// Every spelling that the original takes; the first of each type is its name here.
inline constexpr std::array<AttnMaskSpelling, 11> attn_mask_spellings = {{
    {"no_mask", AttnMaskType::no_mask},
    {"padding", AttnMaskType::padding},
    {"causal", AttnMaskType::causal},
    {"padding_causal", AttnMaskType::padding_causal},
    {"causal_padding", AttnMaskType::padding_causal},
    {"causal_bottom_right", AttnMaskType::causal_bottom_right},
    {"bottom_right_causal", AttnMaskType::causal_bottom_right},
    {"padding_causal_bottom_right", AttnMaskType::padding_causal_bottom_right},
    {"causal_padding_bottom_right", AttnMaskType::padding_causal_bottom_right},
    {"bottom_right_causal_padding", AttnMaskType::padding_causal_bottom_right},
    {"bottom_right_padding_causal", AttnMaskType::padding_causal_bottom_right},
}};

/// The mask type that a text names. Throws Error (invalid_argument) for one that names none.
inline AttnMaskType parse_attn_mask_type(std::string_view text) {
  std::string known;
  for (const AttnMaskSpelling& spelling : attn_mask_spellings) {
    if (spelling.text == text) return spelling.type;
    known.append(known.empty() ? "" : ", ").append(spelling.text);
  }
  throw Error(Status::invalid_argument, "attn_mask_type: '" + std::string(text) + "', it must be one of " + known);
}

/// "padding_causal".
inline std::string_view name_of(AttnMaskType type) {
  for (const AttnMaskSpelling& spelling : attn_mask_spellings) {
    if (spelling.type == type) return spelling.text;
  }
  throw Error(Status::invalid_argument,
              "attn_mask_type: " + std::to_string(static_cast<int>(type)) + ", it must be one of AttnMaskType");
}

/// How many tokens of each batch entry count: [B], i32. Only the padding mask types have them, and they need both; for
/// self-attention give one view twice.
struct Lengths {
  TensorView query = {};
  TensorView key = {};
};

/**
 * Scaled dot-product attention with its settings fixed. Immutable: one module may serve many threads at once.
 *
 * Shapes, with B batch, T query length, S key length: query [B, T, num_attention_heads, head_dim], key [B, S, num_gqa_groups,
 * head_dim], value [B, S, num_gqa_groups, Hv] (Hv is free, mostly head_dim), out [B, T, num_attention_heads, Hv], lse
 * [B, num_attention_heads, T]. With transpose_batch_sequence the first two dimensions of all but lse and lengths are exchanged:
 * [T, B, ...], out and gradients too. Element types, strides and results are those of dhyan.h.
 *
 * Every member throws dhyan::Error. invalid_argument: an argument breaks a rule; the sentence names it, its value and the rule.
 * Others: as of dhyan::attention.
 *
 * Sources: names, defaults, masks, layouts and the window, inclusive on both ends, are those of
 * transformer_engine.jax.flax.DotProductAttention (2.20). Rows past a length and rows that see no key are 0.
 */
class DotProductAttention {
 public:
  /// What a module is made of. head_dim and num_attention_heads have no default.
  struct Arguments {
    std::int64_t head_dim = 0;             ///< of query and key
    std::int64_t num_attention_heads = 0;  ///< query heads
    /// Key/value heads; must divide num_attention_heads. Default: as many (multi-head). 1: multi-query.
    std::optional<std::int64_t> num_gqa_groups = {};
    AttnMaskType attn_mask_type = AttnMaskType::causal;
    bool transpose_batch_sequence = false;    ///< tensors are [T, B, N, H] instead of [B, T, N, H]
    std::optional<double> scale_factor = {};  ///< multiplies Q K^T; default 1 / sqrt(head_dim)
    Window window_size = {};                  ///< (left, right) around the mask type's diagonal; -1: unlimited
    Implementation implementation = Implementation::automatic;
    std::int32_t threads = 0;  ///< of the CPU; 0: all
  };

  /// Throws Error (invalid_argument) for a size, window or scale that breaks a rule.
  explicit DotProductAttention(const Arguments& arguments) : arguments_(arguments) {
    const Arguments& a = arguments_;
    if (a.head_dim < 1) refuse("head_dim", std::to_string(a.head_dim), "it must be at least 1");
    if (a.num_attention_heads < 1) {
      refuse("num_attention_heads", std::to_string(a.num_attention_heads), "it must be at least 1");
    }
    if (groups() < 1 || a.num_attention_heads % groups() != 0) {
      refuse("num_gqa_groups", std::to_string(groups()),
             "it must divide num_attention_heads, " + std::to_string(a.num_attention_heads));
    }
    for (const std::int64_t size : {a.window_size.left, a.window_size.right}) {
      if (size < -1) {
        refuse("window_size",
               std::string("(") + std::to_string(a.window_size.left) + ", " + std::to_string(a.window_size.right) + ")",
               "each must be -1 (unlimited) or a count of keys");
      }
    }
    if (a.scale_factor && !std::isfinite(*a.scale_factor)) {
      refuse("scale_factor", std::to_string(*a.scale_factor), "it must be finite");
    }
    name_of(a.attn_mask_type);  // throws for what is no mask type
  }

  const Arguments& arguments() const { return arguments_; }

  /// out = softmax(scale_factor Q K^T, masked) V. `lengths`: for the padding mask types. `stream`: a cudaStream_t, null on a
  /// CPU.
  void operator()(const TensorView& query, const TensorView& key, const TensorView& value, const TensorView& out,
                  const Lengths& lengths = {}, void* stream = nullptr) const {
    attention(problem(query, key, value, out, {}, lengths), stream);
  }

  /// The same, with the natural log of the softmax denominator, which the backward pass reads.
  void operator()(const TensorView& query, const TensorView& key, const TensorView& value, const TensorView& out,
                  const TensorView& lse, const Lengths& lengths = {}, void* stream = nullptr) const {
    attention(problem(query, key, value, out, lse, lengths), stream);
  }

  /// The gradients of the same call from its out and lse: those of query, key and value whose view in `grads` is present.
  void backward(const TensorView& query, const TensorView& key, const TensorView& value, const TensorView& out,
                const TensorView& lse, const TensorView& grad_out, const Gradients& grads, const Lengths& lengths = {},
                void* stream = nullptr) const {
    Problem p = problem(query, key, value, out, lse, lengths);
    p.grad_out = dense("grad_out", grad_out);
    p.grads = {.query = dense("grad_query", grads.query),
               .key = dense("grad_key", grads.key),
               .value = dense("grad_value", grads.value),
               .bias = grads.bias,
               .sink = grads.sink};
    attention_backward(p, stream);
  }

  /// The forward call as a plain problem, tensors as [B, T, N, H]: for a Plan, for its scratch size and description. An absent
  /// `lse` is not written.
  Problem problem(const TensorView& query, const TensorView& key, const TensorView& value, const TensorView& out,
                  const TensorView& lse = {}, const Lengths& lengths = {}) const {
    const Arguments& a = arguments_;
    check("query", query, 2, "num_attention_heads", a.num_attention_heads);
    check("query", query, 3, "head_dim", a.head_dim);
    check("key", key, 2, "num_gqa_groups", groups());
    check("key", key, 3, "head_dim", a.head_dim);
    check("value", value, 2, "num_gqa_groups", groups());
    check_lengths("lengths.query", lengths.query);
    check_lengths("lengths.key", lengths.key);
    return {.query = dense("query", query),
            .key = dense("key", key),
            .value = dense("value", value),
            .out = dense("out", out),
            .lse = lse,
            .options = {.causal = causal(),
                        .window = a.window_size,
                        .scale = a.scale_factor,
                        .query_lengths = lengths.query,
                        .key_lengths = lengths.key,
                        .implementation = a.implementation,
                        .threads = a.threads}};
  }

 private:
  [[noreturn]] static void refuse(const std::string& argument, const std::string& value, const std::string& rule) {
    throw Error(Status::invalid_argument, argument + ": " + value + ", " + rule);
  }

  static std::string shape_text(const TensorView& view) {
    std::string text = "shape [";
    for (std::size_t i = 0; i < view.shape().size(); ++i) text += (i ? ", " : "") + std::to_string(view.shape()[i]);
    return text + "]";
  }

  std::int64_t groups() const { return arguments_.num_gqa_groups.value_or(arguments_.num_attention_heads); }

  bool padding() const {
    const AttnMaskType type = arguments_.attn_mask_type;
    return type == AttnMaskType::padding || type == AttnMaskType::padding_causal ||
           type == AttnMaskType::padding_causal_bottom_right;
  }

  Causal causal() const {
    switch (arguments_.attn_mask_type) {
      case AttnMaskType::causal:
      case AttnMaskType::padding_causal:
        return Causal::top_left;
      case AttnMaskType::causal_bottom_right:
      case AttnMaskType::padding_causal_bottom_right:
        return Causal::bottom_right;
      case AttnMaskType::no_mask:
      case AttnMaskType::padding:
        break;
    }
    return Causal::off;
  }

  void check_rank(const char* argument, const TensorView& view) const {
    if (view.shape().size() == 4) return;
    refuse(argument, shape_text(view),
           arguments_.transpose_batch_sequence ? "it must have 4 dimensions [length, batch, heads, head_dim]"
                                               : "it must have 4 dimensions [batch, length, heads, head_dim]");
  }

  void check(const char* argument, const TensorView& view, std::size_t dimension, const char* what, std::int64_t size) const {
    if (!view.present()) refuse(argument, "absent", "every call needs it");
    check_rank(argument, view);
    if (view.shape()[dimension] == size) return;
    refuse(argument, shape_text(view),
           "dimension " + std::to_string(dimension) + " must be " + what + ", " + std::to_string(size));
  }

  void check_lengths(const char* argument, const TensorView& view) const {
    if (view.present() == padding()) return;
    const std::string type(name_of(arguments_.attn_mask_type));
    if (padding()) refuse(argument, "absent", "attn_mask_type " + type + " needs the lengths of query and of key");
    refuse(argument, "given with attn_mask_type " + type, "only the padding types have lengths");
  }

  /// The view as [B, T, N, H]; an absent one stays absent.
  TensorView dense(const char* argument, const TensorView& view) const {
    if (!view.present() || !arguments_.transpose_batch_sequence) return view;
    check_rank(argument, view);
    const auto shape = view.shape(), strides = view.strides();
    const std::array<std::int64_t, 4> sizes = {shape[1], shape[0], shape[2], shape[3]};
    const std::array<std::int64_t, 4> steps = {strides[1], strides[0], strides[2], strides[3]};
    TensorView result(view.data(), view.dtype(), sizes, steps, view.device());
    return result.align(view.c()->alignment);
  }

  Arguments arguments_;
};

}  // namespace dhyan::nn

#endif

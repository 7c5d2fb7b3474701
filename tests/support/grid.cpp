// SPDX-License-Identifier: Apache-2.0
#include "support/grid.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <functional>

namespace dhyan::testing {
namespace {

void packed(Case& c, std::int64_t gap) {
  c.packed = true;
  c.packing_gap = gap;
}

// What the rules forbid together, or what would be the same twice.
bool compatible(const Option& a, const Option& b) {
  const auto is = [](const Option& option, const char* word) { return std::strstr(option.name, word) != nullptr; };
  for (const char* kind : {"bias", "mask", "alibi", "packed", "causal", "heads", "_lengths"}) {
    if (is(a, kind) && is(b, kind) && std::strcmp(kind, "_lengths") != 0) return false;
  }
  const auto both = [&](const char* x, const char* y) { return (is(a, x) && is(b, y)) || (is(a, y) && is(b, x)); };
  return !both("packed", "_lengths") && !both("bottom_right", "origins");
}

}  // namespace

const std::vector<Option>& options() {
  static const std::vector<Option> all{
      {"scale", [](Case& c) { c.scale = 0.37; }},
      {"negative_scale", [](Case& c) { c.scale = -0.2; }},
      {"softcap", [](Case& c) { c.softcap = 1.5; }},
      {"causal_top_left", [](Case& c) { c.causal = DHYAN_CAUSAL_TOP_LEFT; }},
      {"causal_bottom_right", [](Case& c) { c.causal = DHYAN_CAUSAL_BOTTOM_RIGHT; }},
      {"window_left", [](Case& c) { c.window_left = std::max<std::int64_t>(c.key_length / 4, 1); }},
      {"window_right", [](Case& c) { c.window_right = std::max<std::int64_t>(c.key_length / 5, 1); }},
      {"window", [](Case& c) { c.window_left = 2, c.window_right = 1; }},
      {"bias_full", [](Case& c) { c.bias = DHYAN_F32, c.grad_bias = true; }},
      {"bias_over_batch", [](Case& c) { c.bias = DHYAN_F32, c.bias_broadcast = {true}, c.grad_bias = true; }},
      {"bias_over_heads",
       [](Case& c) {
         c.bias = c.dtype, c.bias_broadcast = {false, true}, c.grad_bias = true;
       }},
      {"bias_over_queries",
       [](Case& c) {
         c.bias = DHYAN_F32, c.bias_broadcast = {true, false, true}, c.grad_bias = true;
       }},
      {"bias_over_keys",
       [](Case& c) {
         c.bias = c.dtype, c.bias_broadcast = {false, false, false, true}, c.grad_bias = true;
       }},
      {"bias_of_one_number",
       [](Case& c) {
         c.bias = DHYAN_F32, c.bias_broadcast = {true, true, true, true}, c.grad_bias = true;
       }},
      {"bias_minus_infinity", [](Case& c) { c.bias = DHYAN_F32, c.bias_minus_infinity = 0.3, c.grad_bias = true; }},
      {"bias_f64",
       [](Case& c) {
         c.bias = DHYAN_F64, c.bias_broadcast = {true, true}, c.grad_bias = true;
       }},
      {"bias_without_gradient", [](Case& c) { c.bias = DHYAN_BF16; }},
      {"mask_full", [](Case& c) { c.mask = true; }},
      {"mask_of_keys",
       [](Case& c) {
         c.mask = true, c.mask_broadcast = {false, true, true};
       }},
      {"mask_of_queries",
       [](Case& c) {
         c.mask = true, c.mask_broadcast = {true, false, false, true};
       }},
      {"mask_over_batch_and_heads",
       [](Case& c) {
         c.mask = true, c.mask_broadcast = {true, true};
       }},
      {"alibi_of_heads", [](Case& c) { c.slopes = Slopes::per_head; }},
      {"alibi_of_batch_and_heads", [](Case& c) { c.slopes = Slopes::per_batch_and_head; }},
      {"sink", [](Case& c) { c.sink = c.grad_sink = true; }},
      {"query_lengths",
       [](Case& c) {
         c.query_lengths = {c.query_length / 2, c.query_length};
       }},
      {"key_lengths",
       [](Case& c) {
         c.key_lengths = {c.key_length, c.key_length / 3};
       }},
      {"packed", [](Case& c) { packed(c, 0); }},
      {"packed_with_gaps", [](Case& c) { packed(c, 3), c.offsets = DHYAN_I64; }},
      {"dropout", [](Case& c) { c.dropout = 0.3, c.dropout_seed = 0x123456789ABCDEF, c.dropout_offset = 3; }},
      {"origins", [](Case& c) { c.batch_origin = 5, c.head_origin = 7, c.query_origin = 6, c.key_origin = 3; }},
      {"grad_lse", [](Case& c) { c.grad_lse = true; }},
      {"heads_equal", [](Case& c) { c.key_heads = c.query_heads; }},
      {"heads_share_one_key", [](Case& c) { c.key_heads = 1; }},
      {"value_dim", [](Case& c) { c.value_head_dim = c.head_dim + 3; }},
      {"only_grad_query", [](Case& c) { c.grad_key = c.grad_value = false; }},
      {"only_grad_value", [](Case& c) { c.grad_key = c.grad_query = false; }},
      {"no_grad_value", [](Case& c) { c.grad_value = false; }},
  };
  return all;
}

Case tiny_case() {
  Case c;
  c.query_length = 4;
  c.key_length = 5;
  c.query_heads = 4;
  c.key_heads = 2;
  c.head_dim = 3;
  c.value_head_dim = 3;
  return c;
}

void resize(Case& c, std::int64_t query_length, std::int64_t key_length) {
  c.query_length = query_length;
  c.key_length = key_length;
  if (!c.packed) return;
  c.query_lengths = {query_length / 2, query_length};
  c.key_lengths = {key_length, key_length / 3};
}

std::vector<Case> one_option_cases(const Case& base) {
  std::vector<Case> cases{base};
  cases.back().name = "plain";
  for (const Option& option : options()) {
    Case c = base;
    option.apply(c);
    c.name = option.name;
    resize(c, c.query_length, c.key_length);
    cases.push_back(c);
  }
  return cases;
}

std::vector<Case> two_option_cases(const Case& base) {
  std::vector<Case> cases;
  const auto& all = options();
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = i + 1; j < all.size(); ++j) {
      if (!compatible(all[i], all[j])) continue;
      Case c = base;
      all[i].apply(c);
      all[j].apply(c);
      c.name = std::string(all[i].name) + "_and_" + all[j].name;
      resize(c, c.query_length, c.key_length);
      cases.push_back(c);
    }
  }
  return cases;
}

bool small_grid() {
  const char* text = std::getenv("DHYAN_TEST_GRID");
  return text && std::strcmp(text, "small") == 0;
}

bool left_out(const Case& c) { return small_grid() && std::hash<std::string>()(describe(c)) % 6 != 0; }

std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  std::string name = std::to_string(info.index) + '_' + info.param.name;
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

}  // namespace dhyan::testing

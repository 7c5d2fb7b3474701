// SPDX-License-Identifier: Apache-2.0
#include "support/grid.hpp"

namespace dhyan::testing {
namespace {

constexpr dhyan_dtype all_types[] = {DHYAN_F32, DHYAN_BF16, DHYAN_F16, DHYAN_F64};
constexpr dhyan_dtype fast_types[] = {DHYAN_F32, DHYAN_BF16, DHYAN_F16};
constexpr Layout all_layouts[] = {Layout::contiguous, Layout::heads_first, Layout::gaps, Layout::shared_batch,
                                  Layout::unaligned};

Case sized(dhyan_dtype dtype, std::int64_t query_length, std::int64_t key_length, std::int64_t head_dim) {
  Case c;
  c.dtype = dtype;
  c.query_length = query_length;
  c.key_length = key_length;
  c.head_dim = c.value_head_dim = head_dim;
  return c;
}

}  // namespace

// Every option in every type, long enough for several tiles of keys.
std::vector<Case> every_option() {
  std::vector<Case> cases;
  for (const dhyan_dtype dtype : all_types) {
    const bool slow = dtype == DHYAN_F64 || small_grid();
    const auto some = one_option_cases(slow ? sized(dtype, 19, 37, 16) : sized(dtype, 130, 300, 40));
    cases.insert(cases.end(), some.begin(), some.end());
  }
  return cases;
}

// Sizes and layouts differ from pair to pair.
std::vector<Case> every_pair() {
  constexpr std::int64_t lengths[][2] = {{19, 37}, {65, 96}, {33, 130}, {70, 31}, {5, 257}};
  constexpr std::int64_t dims[] = {24, 8, 33, 64};
  std::vector<Case> cases;
  std::size_t i = 0;
  for (const dhyan_dtype dtype : fast_types) {
    Case base = sized(dtype, 19, 37, 24);
    for (Case& c : two_option_cases(base)) {
      ++i;
      if (small_grid() && i % 6 != 0) continue;
      if (c.value_head_dim == c.head_dim) c.value_head_dim = dims[i % 4];
      c.head_dim = dims[i % 4];
      c.layout = all_layouts[i % 5];
      if (c.packed && c.layout == Layout::shared_batch) c.layout = Layout::gaps;
      const auto* size = lengths[i % 5];
      const Case given = c;
      resize(c, size[0], size[1]);
      if (!c.packed && !given.query_lengths.empty()) c.query_lengths = {size[0] / 2, size[0]};
      if (!c.packed && !given.key_lengths.empty()) c.key_lengths = {size[1], size[1] / 3};
      cases.push_back(c);
    }
  }
  return cases;
}

// Awkward lengths against each other, with and without causal.
std::vector<Case> every_length() {
  const std::vector<std::int64_t> lengths = small_grid()
                                                ? std::vector<std::int64_t>{0, 1, 65}
                                                : std::vector<std::int64_t>{0, 1, 2, 3, 16, 31, 63, 64, 65, 96, 127, 129, 257};
  std::vector<Case> cases;
  std::size_t i = 0;
  for (const std::int64_t t : lengths) {
    for (const std::int64_t s : lengths) {
      for (const dhyan_causal causal : {DHYAN_CAUSAL_OFF, DHYAN_CAUSAL_TOP_LEFT, DHYAN_CAUSAL_BOTTOM_RIGHT}) {
        Case c = sized(fast_types[i++ % 3], t, s, 32);
        c.batch = 1;
        c.query_heads = 2;
        c.key_heads = 1;
        c.causal = causal;
        c.name = "length";
        cases.push_back(c);
      }
    }
  }
  return cases;
}

std::vector<Case> every_head_dim() {
  std::vector<Case> cases;
  for (const dhyan_dtype dtype : fast_types) {
    for (const std::int64_t h :
         {1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 33, 48, 63, 65, 72, 80, 96, 127, 128, 129, 160, 192, 256, 257, 320, 511, 512}) {
      if (small_grid() && h % 3 != 0) continue;
      Case c = sized(dtype, 17, 70, h);
      c.batch = 1;
      c.query_heads = c.key_heads = 2;
      c.name = "head_dim";
      cases.push_back(c);
      c.value_head_dim = 514 - h - (h == 1 ? 1 : 0);  // small with large
      c.causal = DHYAN_CAUSAL_BOTTOM_RIGHT;
      c.name = "value_head_dim";
      cases.push_back(c);
    }
  }
  return cases;
}

std::vector<Case> every_layout() {
  std::vector<Case> cases;
  for (const dhyan_dtype dtype : all_types) {
    for (const Layout layout : all_layouts) {
      for (const std::int64_t h : {16, 20, 7}) {
        Case c = sized(dtype, 40, 70, h);
        c.layout = layout;
        c.bias = dtype;
        c.grad_bias = c.grad_lse = c.mask = true;
        c.causal = DHYAN_CAUSAL_TOP_LEFT;
        c.name = name_of(layout);
        cases.push_back(c);
      }
    }
  }
  return cases;
}

// One query against many keys: what decoding does.
std::vector<Case> decode() {
  std::vector<Case> cases;
  for (const dhyan_dtype dtype : fast_types) {
    for (const std::int64_t s : {1, 64, 65, 1000, 4097}) {
      for (const std::int64_t k : {1, 2, 8}) {
        if (small_grid() && s > 1000) continue;
        Case c = sized(dtype, 1, s, 64);
        c.query_heads = 8;
        c.key_heads = k;
        c.causal = DHYAN_CAUSAL_BOTTOM_RIGHT;
        c.name = "one_query";
        cases.push_back(c);
        c.key_lengths = {s, s / 2};
        c.sink = c.grad_sink = true;
        c.query_length = 3;
        c.name = "three_queries";
        cases.push_back(c);
      }
    }
  }
  return cases;
}

// Nothing anywhere.
std::vector<Case> zero_sizes() {
  std::vector<Case> cases;
  const auto add = [&](const char* name, auto change) {
    Case c = sized(DHYAN_F32, 5, 7, 8);
    c.bias = DHYAN_F32;
    c.grad_bias = c.sink = c.grad_sink = true;
    change(c);
    c.name = name;
    for (const dhyan_dtype dtype : all_types) {
      c.dtype = dtype;
      cases.push_back(c);
    }
  };
  add("no_batch", [](Case& c) { c.batch = 0; });
  add("no_queries", [](Case& c) { c.query_length = 0; });
  add("no_keys", [](Case& c) { c.key_length = 0; });
  add("neither", [](Case& c) { c.query_length = c.key_length = 0; });
  add("no_heads", [](Case& c) { c.query_heads = c.key_heads = 0; });
  add("no_value_dim", [](Case& c) { c.value_head_dim = 0; });
  add("no_sequences", [](Case& c) { c.batch = 0, c.packed = true; });
  add("all_sequences_empty", [](Case& c) { c.packed = true, c.query_lengths = c.key_lengths = {0, 0}; });
  add("lengths_zero", [](Case& c) { c.query_lengths = c.key_lengths = {0, 0}; });
  return cases;
}

}  // namespace dhyan::testing

// SPDX-License-Identifier: Apache-2.0
#include "support/public_api.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

namespace dhyan::testing {
namespace {

// A problem of dhyan.h whose tensors live as long as it does.
class Client {
 public:
  Client(const Instance& x, dhyan_implementation implementation) : packed_(x.description.packed) {
    const Case& c = x.description;
    dhyan_options_init(&options_);
    options_.implementation = implementation;
    options_.causal = c.causal;
    options_.window_left = c.window_left;
    options_.window_right = c.window_right;
    if (c.scale != -1) options_.scale = c.scale;
    options_.softcap = c.softcap;
    options_.dropout_probability = c.dropout;
    options_.dropout_seed = c.dropout_seed;
    options_.dropout_offset = c.dropout_offset;
    options_.batch_origin = c.batch_origin;
    options_.head_origin = c.head_origin;
    options_.query_origin = c.query_origin;
    options_.key_origin = c.key_origin;
    if (packed_) {
      options_.max_query_length = c.query_length;
      options_.max_key_length = c.key_length;
    }
    options_.threads = c.threads;
    dhyan_problem_init(&problem_);
    problem_.options = &options_;
    problem_.query = rows(x.query);
    problem_.key = rows(x.key);
    problem_.value = rows(x.value);
    problem_.bias = tensor(x.bias, {0, 1, 2, 3});
    problem_.mask = tensor(x.mask, {0, 1, 2, 3});
    problem_.alibi_slopes = c.slopes == Slopes::per_head ? list(x.alibi_slopes) : tensor(x.alibi_slopes, {0, 3});
    problem_.sink = list(x.sink);
    problem_.query_lengths = list(x.query_lengths);
    problem_.key_lengths = list(x.key_lengths);
    problem_.query_offsets = list(x.query_offsets);
    problem_.key_offsets = list(x.key_offsets);
  }

  const dhyan_tensor* rows(const Array& a) { return packed_ ? tensor(a, {1, 2, 3}) : tensor(a, {0, 1, 2, 3}); }
  const dhyan_tensor* statistics(const Array& a) { return packed_ ? tensor(a, {2, 3}) : tensor(a, {0, 2, 3}); }
  const dhyan_tensor* list(const Array& a) { return tensor(a, {3}); }
  const dhyan_tensor* scores(const Array& a) { return tensor(a, {0, 1, 2, 3}); }
  dhyan_problem& problem() { return problem_; }

 private:
  const dhyan_tensor* tensor(const Array& a, const std::vector<int>& dimensions) {
    if (!a.present()) return nullptr;
    dhyan_tensor& t = tensors_.emplace_back();
    dhyan_tensor_init(&t);
    t.data = const_cast<void*>(a.data());
    t.dtype = a.dtype();
    t.rank = static_cast<std::int32_t>(dimensions.size());
    for (std::size_t i = 0; i < dimensions.size(); ++i) {
      const auto d = static_cast<std::size_t>(dimensions[i]);
      t.shape[i] = a.shape()[d];
      t.strides[i] = a.strides()[d];
    }
    return &t;
  }

  bool packed_;
  std::deque<dhyan_tensor> tensors_;
  dhyan_options options_{};
  dhyan_problem problem_{};
};

}  // namespace

Forward public_forward(dhyan_implementation implementation, const Instance& x) {
  Forward result{x.out.like(), x.description.lse ? x.lse.like() : Array()};
  Client client(x, implementation);
  client.problem().out = client.rows(result.out);
  client.problem().lse = client.statistics(result.lse);
  char message[512] = "";
  EXPECT_EQ(dhyan_attention(&client.problem(), nullptr, message, sizeof message), DHYAN_OK) << message;
  return result;
}

Backward public_backward(dhyan_implementation implementation, const Instance& x, const Forward& given) {
  Backward result = empty_gradients(x);
  Client client(x, implementation);
  dhyan_problem& p = client.problem();
  p.out = client.rows(given.out);
  p.lse = client.statistics(given.lse);
  p.grad_out = client.rows(x.grad_out);
  p.grad_lse = client.statistics(x.grad_lse);
  p.grad_query = client.rows(result.grad_query);
  p.grad_key = client.rows(result.grad_key);
  p.grad_value = client.rows(result.grad_value);
  p.grad_bias = client.scores(result.grad_bias);
  p.grad_sink = client.list(result.grad_sink);
  char message[512] = "";
  EXPECT_EQ(dhyan_attention_backward(&p, nullptr, message, sizeof message), DHYAN_OK) << message;
  return result;
}

}  // namespace dhyan::testing

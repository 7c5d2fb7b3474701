// SPDX-License-Identifier: Apache-2.0
// Every sentence the library answers a wrong problem with: argument, value, rule.
#include <gtest/gtest.h>

#include <limits>
#include <ostream>

#include "support/client.hpp"

namespace dhyan::testing {
namespace {

using namespace api;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Mistake {
  const char* name;
  void (*make)(Client& c);
  const char* sentence;
  dhyan_status status = DHYAN_INVALID_ARGUMENT;
};
void PrintTo(const Mistake& mistake, std::ostream* stream) { *stream << mistake.name; }

std::string mistake_name(const ::testing::TestParamInfo<Mistake>& info) { return info.param.name; }

void pack(Client& c) {
  c.add(kQuery, DHYAN_F32, {7, 4, 8});
  c.add(kKey, DHYAN_F32, {9, 2, 8});
  c.add(kValue, DHYAN_F32, {9, 2, 6});
  c.add(kOut, DHYAN_F32, {7, 4, 6});
  c.add(kLse, DHYAN_F32, {4, 7});
  c.add(kQueryOffsets, DHYAN_I32, {3});
  c.add(kKeyOffsets, DHYAN_I64, {3});
}

// Made in a forward problem of query [2, 3, 4, 8], key [2, 5, 2, 8], value [2, 5, 2, 6].
const std::vector<Mistake> kTensorMistakes = {
    {"query_missing", [](Client& c) { c.remove(kQuery); }, "query: NULL, a problem needs it"},
    {"key_missing", [](Client& c) { c.remove(kKey); }, "key: NULL, a problem needs it"},
    {"value_missing", [](Client& c) { c.remove(kValue); }, "value: NULL, a problem needs it"},
    {"out_missing", [](Client& c) { c.remove(kOut); }, "out: NULL, a problem needs it"},
    {"rank_too_large", [](Client& c) { c[kQuery].rank = 5; }, "query: rank 5, at most 4 is allowed"},
    {"rank_negative", [](Client& c) { c[kQuery].rank = -1; }, "query: rank -1, at most 4 is allowed"},
    {"query_of_three_dimensions",
     [](Client& c) {
       c.add(kQuery, DHYAN_F32, {3, 4, 8});
     },
     "query: shape [3, 4, 8], it must have 4 dimensions [batch, length, heads, head_dim] (packed sequences: give offsets)"},
    {"dtype_none", [](Client& c) { c[kKey].dtype = DHYAN_NONE; },
     "key: dtype none, a tensor that is given needs its element type"},
    {"dtype_unknown", [](Client& c) { c[kKey].dtype = 99; }, "key: dtype 99, it must be one of the DHYAN_ element types"},
    {"dtype_e4m3", [](Client& c) { c[kQuery].dtype = DHYAN_E4M3; },
     "query: dtype e4m3, FP8 attention is not built yet; bf16, f16, f32 and f64 are", DHYAN_UNSUPPORTED},
    {"dtype_e5m2", [](Client& c) { c[kValue].dtype = DHYAN_E5M2; },
     "value: dtype e5m2, FP8 attention is not built yet; bf16, f16, f32 and f64 are", DHYAN_UNSUPPORTED},
    {"query_of_integers",
     [](Client& c) {
       c.add(kQuery, DHYAN_I32, {2, 3, 4, 8});
     },
     "query: dtype i32, it must be f64, f32, f16 or bf16"},
    {"key_of_another_dtype",
     [](Client& c) {
       c.add(kKey, DHYAN_F16, {2, 5, 2, 8});
     },
     "key: dtype f16, it must be the query's, f32"},
    {"value_of_another_dtype",
     [](Client& c) {
       c.add(kValue, DHYAN_F64, {2, 5, 2, 6});
     },
     "value: dtype f64, it must be the query's, f32"},
    {"out_of_another_dtype",
     [](Client& c) {
       c.add(kOut, DHYAN_BF16, {2, 3, 4, 6});
     },
     "out: dtype bf16, it must be the query's, f32"},
    {"lse_of_the_inputs_dtype",
     [](Client& c) {
       c.add(kLse, DHYAN_F64, {2, 4, 3});
     },
     "lse: dtype f64, it must be f32 for f32 inputs"},
    {"device_unknown", [](Client& c) { c[kQuery].device_type = 7; },
     "query: device_type 7, it must be DHYAN_CPU or DHYAN_CUDA"},
    {"device_index", [](Client& c) { c[kQuery].device_index = 1; }, "query: device_index 1, the CPU has index 0 only"},
    {"reserved", [](Client& c) { c[kQuery].reserved = 4; }, "query: reserved is 4, it must be 0"},
    {"alignment_no_power_of_two", [](Client& c) { c[kQuery].alignment = 12; },
     "query: alignment 12, it must be 0 or a power of two from 4 (the element's size) to 4096"},
    {"alignment_below_element", [](Client& c) { c[kQuery].alignment = 2; },
     "query: alignment 2, it must be 0 or a power of two from 4 (the element's size) to 4096"},
    {"alignment_too_large", [](Client& c) { c[kQuery].alignment = 8192; },
     "query: alignment 8192, it must be 0 or a power of two from 4 (the element's size) to 4096"},
    {"size_negative", [](Client& c) { c[kQuery].shape[1] = -3; }, "query: size -3 of dimension 1, it must be 0 to 2^40"},
    {"size_too_large", [](Client& c) { c[kQuery].shape[1] = (std::int64_t{1} << 40) + 1; },
     "query: size 1099511627777 of dimension 1, it must be 0 to 2^40"},
    {"stride_negative", [](Client& c) { c[kKey].strides[1] = -16; }, "key: stride -16 of dimension 1, it must not be negative"},
    {"last_dimension_not_contiguous", [](Client& c) { c[kValue].strides[3] = 2; },
     "value: stride 2 of the last dimension, it must be 1 (contiguous)"},
    {"extent_beyond_memory", [](Client& c) { c[kKey].strides[0] = std::int64_t{1} << 62; },
     "key: shape [2, 5, 2, 8] with its strides reaches past 2^61 bytes, no memory is that large"},
    {"key_batch",
     [](Client& c) {
       c.add(kKey, DHYAN_F32, {3, 5, 2, 8});
     },
     "key: shape [3, 5, 2, 8], dimension 0 (batch) must be 2"},
    {"key_head_dim",
     [](Client& c) {
       c.add(kKey, DHYAN_F32, {2, 5, 2, 7});
     },
     "key: shape [2, 5, 2, 7], dimension 3 (query's head_dim) must be 8"},
    {"key_heads",
     [](Client& c) {
       c.add(kKey, DHYAN_F32, {2, 5, 3, 8}), c.add(kValue, DHYAN_F32, {2, 5, 3, 6});
     },
     "key: shape [2, 5, 3, 8], its 3 heads must divide the query's 4"},
    {"key_without_heads",
     [](Client& c) {
       c.add(kKey, DHYAN_F32, {2, 5, 0, 8}), c.add(kValue, DHYAN_F32, {2, 5, 0, 6});
     },
     "key: shape [2, 5, 0, 8], its 0 heads must divide the query's 4"},
    {"value_length",
     [](Client& c) {
       c.add(kValue, DHYAN_F32, {2, 4, 2, 6});
     },
     "value: shape [2, 4, 2, 6], dimension 1 (key length) must be 5"},
    {"value_heads",
     [](Client& c) {
       c.add(kValue, DHYAN_F32, {2, 5, 4, 6});
     },
     "value: shape [2, 5, 4, 6], dimension 2 (key heads) must be 2"},
    {"head_dim_over_512",
     [](Client& c) {
       c.add(kQuery, DHYAN_F32, {2, 3, 4, 513});
     },
     "query: shape [2, 3, 4, 513], head_dim must be at most 512"},
    {"value_head_dim_over_512",
     [](Client& c) {
       c.add(kValue, DHYAN_F32, {2, 5, 2, 513});
     },
     "value: shape [2, 5, 2, 513], head_dim must be at most 512"},
    {"too_many_scores",
     [](Client& c) {
       for (const Slot slot : {kQuery, kOut}) c[slot].shape[1] = std::int64_t{1} << 30;
       for (const Slot slot : {kKey, kValue}) c[slot].shape[1] = std::int64_t{1} << 30, c[slot].strides[1] = 0;
       c.remove(kLse);
     },
     "query: shape [2, 1073741824, 4, 8] with a key of shape [2, 1073741824, 2, 8], batch * query heads * query length * key "
     "length must be at most 2^58"},
    {"out_shape",
     [](Client& c) {
       c.add(kOut, DHYAN_F32, {2, 3, 4, 8});
     },
     "out: shape [2, 3, 4, 8], dimension 3 (value head_dim) must be 6"},
    {"out_overlaps_itself", [](Client& c) { c[kOut].strides[0] = 0; },
     "out: shape [2, 3, 4, 6] with strides [0, 24, 6, 1], elements of an output must not share memory"},
    {"lse_shape",
     [](Client& c) {
       c.add(kLse, DHYAN_F32, {2, 3, 4});
     },
     "lse: shape [2, 3, 4], dimension 1 (query heads) must be 4"},
    {"lse_overlaps_itself", [](Client& c) { c[kLse].strides[1] = 2; },
     "lse: shape [2, 4, 3] with strides [12, 2, 1], elements of an output must not share memory"},
    {"bias_dtype",
     [](Client& c) {
       c.add(kBias, DHYAN_BOOL, {3, 5});
     },
     "bias: dtype bool, it must be f64, f32, f16 or bf16"},
    {"bias_queries",
     [](Client& c) {
       c.add(kBias, DHYAN_F32, {4, 5});
     },
     "bias: shape [4, 5], dimension 0 (query length) must be 1 or 3"},
    {"bias_heads",
     [](Client& c) {
       c.add(kBias, DHYAN_F32, {2, 2, 3, 5});
     },
     "bias: shape [2, 2, 3, 5], dimension 1 (query heads) must be 1 or 4"},
    {"bias_last_stride",
     [](Client& c) {
       c.add(kBias, DHYAN_F32, {3, 5}).strides[1] = 0;
     },
     "bias: stride 0 of the last dimension, it must be 1 (contiguous)"},
    {"mask_dtype",
     [](Client& c) {
       c.add(kMask, DHYAN_F32, {3, 5});
     },
     "mask: dtype f32, it must be bool"},
    {"mask_keys",
     [](Client& c) {
       c.add(kMask, DHYAN_BOOL, {2, 1, 1, 4});
     },
     "mask: shape [2, 1, 1, 4], dimension 3 (key length) must be 1 or 5"},
    {"alibi_dtype", [](Client& c) { c.add(kAlibiSlopes, DHYAN_F64, {4}); }, "alibi_slopes: dtype f64, it must be f32"},
    {"alibi_shape", [](Client& c) { c.add(kAlibiSlopes, DHYAN_F32, {2}); },
     "alibi_slopes: shape [2], dimension 0 (query heads) must be 4"},
    {"alibi_of_batch_shape",
     [](Client& c) {
       c.add(kAlibiSlopes, DHYAN_F32, {3, 4});
     },
     "alibi_slopes: shape [3, 4], dimension 0 (batch) must be 2"},
    {"sink_dtype", [](Client& c) { c.add(kSink, DHYAN_F16, {4}); }, "sink: dtype f16, it must be f32"},
    {"sink_shape",
     [](Client& c) {
       c.add(kSink, DHYAN_F32, {2, 4});
     },
     "sink: shape [2, 4], it must have the 1 dimension [query heads]"},
    {"lengths_dtype", [](Client& c) { c.add(kQueryLengths, DHYAN_I64, {2}); }, "query_lengths: dtype i64, it must be i32"},
    {"lengths_shape", [](Client& c) { c.add(kKeyLengths, DHYAN_I32, {3}); },
     "key_lengths: shape [3], dimension 0 (batch) must be 2"},
    {"grad_in_forward",
     [](Client& c) {
       c.add(kGradQuery, DHYAN_F32, {2, 3, 4, 8});
     },
     "grad_query: given to a forward problem, only a backward one has it; leave it NULL"},
};

const std::vector<Mistake> kOptionMistakes = {
    {"implementation", [](Client& c) { c.options.implementation = 9; },
     "implementation: 9, it must be one of the DHYAN_ implementations"},
    {"causal", [](Client& c) { c.options.causal = 3; }, "causal: 3, it must be off, top-left or bottom-right"},
    {"window_left", [](Client& c) { c.options.window_left = -2; },
     "window_left: -2, it must be -1 (unlimited) or a count of keys"},
    {"window_right", [](Client& c) { c.options.window_right = INT64_MIN; },
     "window_right: -9223372036854775808, it must be -1 (unlimited) or a count of keys"},
    {"scale_infinite", [](Client& c) { c.options.scale = -kInfinity; },
     "scale: -inf, it must be finite (NaN: 1 / sqrt(head_dim))"},
    {"scale_beyond_float32", [](Client& c) { c.options.scale = 1e39; }, "scale: 1e+39, it must fit float32 for f32 inputs"},
    {"softcap_negative", [](Client& c) { c.options.softcap = -1; }, "softcap: -1, it must be 0 (off) or positive and finite"},
    {"softcap_nan", [](Client& c) { c.options.softcap = std::numeric_limits<double>::quiet_NaN(); },
     "softcap: nan, it must be 0 (off) or positive and finite"},
    {"softcap_infinite", [](Client& c) { c.options.softcap = kInfinity; },
     "softcap: inf, it must be 0 (off) or positive and finite"},
    {"softcap_below_float32", [](Client& c) { c.options.softcap = 1e-40; }, "softcap: 1e-40, it must be a normal float32"},
    {"dropout_one", [](Client& c) { c.options.dropout_probability = 1; },
     "dropout_probability: 1, it must be 0 or from 2^-32 to below 1"},
    {"dropout_negative", [](Client& c) { c.options.dropout_probability = -0.1; },
     "dropout_probability: -0.1, it must be 0 or from 2^-32 to below 1"},
    {"dropout_nan", [](Client& c) { c.options.dropout_probability = std::numeric_limits<double>::quiet_NaN(); },
     "dropout_probability: nan, it must be 0 or from 2^-32 to below 1"},
    {"dropout_below_its_step", [](Client& c) { c.options.dropout_probability = 1e-10; },
     "dropout_probability: 1e-10, it must be 0 or from 2^-32 to below 1"},
    {"dropout_batch_beyond_counter",
     [](Client& c) { c.options.dropout_probability = 0.5, c.options.batch_origin = (std::int64_t{1} << 32) - 1; },
     "batch_origin: 4294967295, dropout counts positions up to 2^32, this shard has 2"},
    {"dropout_key_beyond_counter",
     [](Client& c) { c.options.dropout_probability = 0.5, c.options.key_origin = std::int64_t{1} << 34; },
     "key_origin: 17179869184, dropout counts positions up to 2^34, this shard has 5"},
    {"batch_origin", [](Client& c) { c.options.batch_origin = -1; }, "batch_origin: -1, it must be 0 to 2^40"},
    {"head_origin", [](Client& c) { c.options.head_origin = -1; }, "head_origin: -1, it must be 0 to 2^40"},
    {"query_origin", [](Client& c) { c.options.query_origin = INT64_MAX; },
     "query_origin: 9223372036854775807, it must be 0 to 2^40"},
    {"key_origin", [](Client& c) { c.options.key_origin = -5; }, "key_origin: -5, it must be 0 to 2^40"},
    {"bottom_right_shard", [](Client& c) { c.options.causal = DHYAN_CAUSAL_BOTTOM_RIGHT, c.options.query_origin = 3; },
     "query_origin: 3, bottom-right causal masking cannot be sharded; use top-left, or origin 0"},
    {"bottom_right_key_shard", [](Client& c) { c.options.causal = DHYAN_CAUSAL_BOTTOM_RIGHT, c.options.key_origin = 3; },
     "key_origin: 3, bottom-right causal masking cannot be sharded; use top-left, or origin 0"},
    {"max_length_when_dense", [](Client& c) { c.options.max_query_length = 3; },
     "max_query_length: 3, only packed sequences have it; leave it 0"},
    {"precision", [](Client& c) { c.options.precision = 2; }, "precision: 2, it must be default or tf32"},
    {"precision_tf32", [](Client& c) { c.options.precision = DHYAN_PRECISION_TF32; },
     "precision: tf32, a CPU multiplies f32 as f32; use the default precision", DHYAN_UNSUPPORTED},
    {"threads_negative", [](Client& c) { c.options.threads = -1; }, "threads: -1, it must be 0 (all) to 1024"},
    {"threads_too_many", [](Client& c) { c.options.threads = 1025; }, "threads: 1025, it must be 0 (all) to 1024"},
    {"allow_jit", [](Client& c) { c.options.allow_jit = 2; }, "allow_jit: 2, it must be 0 or 1"},
    {"check_pointers", [](Client& c) { c.options.check_pointers = -1; }, "check_pointers: -1, it must be 0 or 1"},
    {"deterministic", [](Client& c) { c.options.deterministic = 2; }, "deterministic: 2, it must be 0 or 1"},
    {"options_reserved", [](Client& c) { c.options.reserved = 1; }, "reserved: 1, it must be 0"},
};

const std::vector<Mistake> kPackedMistakes = {
    {"key_offsets_missing", [](Client& c) { pack(c), c.remove(kKeyOffsets); },
     "key_offsets: NULL, packed sequences need both offsets"},
    {"query_offsets_missing", [](Client& c) { pack(c), c.remove(kQueryOffsets); },
     "query_offsets: NULL, packed sequences need both offsets"},
    {"offsets_dtype", [](Client& c) { pack(c), c.add(kKeyOffsets, DHYAN_F32, {3}); },
     "key_offsets: dtype f32, it must be i32 or i64"},
    {"offsets_empty", [](Client& c) { pack(c), c.add(kQueryOffsets, DHYAN_I32, {0}); },
     "query_offsets: shape [0], it must be [batch + 1]"},
    {"offsets_rank",
     [](Client& c) {
       pack(c), c.add(kKeyOffsets, DHYAN_I32, {3, 1});
     },
     "key_offsets: shape [3, 1], it must be [batch + 1]"},
    {"offsets_disagree", [](Client& c) { pack(c), c.add(kKeyOffsets, DHYAN_I32, {4}); },
     "key_offsets: shape [4], dimension 0 (batch + 1, as query_offsets has) must be 3"},
    {"query_of_four_dimensions",
     [](Client& c) {
       pack(c), c.add(kQuery, DHYAN_F32, {1, 7, 4, 8});
     },
     "query: shape [1, 7, 4, 8], packed sequences (offsets given) have 3 dimensions [tokens, heads, head_dim]"},
    {"lse_not_by_head",
     [](Client& c) {
       pack(c), c.add(kLse, DHYAN_F32, {7, 4});
     },
     "lse: shape [7, 4], dimension 0 (query heads) must be 4"},
    {"lengths_shape", [](Client& c) { pack(c), c.add(kQueryLengths, DHYAN_I32, {3}); },
     "query_lengths: shape [3], dimension 0 (batch) must be 2"},
    {"max_length_negative", [](Client& c) { pack(c), c.options.max_key_length = -1; },
     "max_key_length: -1, it must be 0 to 2^40"},
    {"mask_not_of_max_length",
     [](Client& c) {
       pack(c), c.options.max_query_length = 6, c.add(kMask, DHYAN_BOOL, {7, 9});
     },
     "mask: shape [7, 9], dimension 0 (query length) must be 1 or 6"},
};

// Made in a backward problem for grad_query, grad_key and grad_value.
const std::vector<Mistake> kBackwardMistakes = {
    {"out_missing", [](Client& c) { c.remove(kOut); }, "out: NULL, the backward pass reads the forward's"},
    {"lse_missing", [](Client& c) { c.remove(kLse); }, "lse: NULL, the backward pass reads the forward's"},
    {"grad_out_missing", [](Client& c) { c.remove(kGradOut); }, "grad_out: NULL, the backward pass needs it"},
    {"no_gradient", [](Client& c) { c.remove(kGradQuery), c.remove(kGradKey), c.remove(kGradValue); },
     "grad_query: NULL, the backward pass needs at least one gradient to write"},
    {"grad_out_shape",
     [](Client& c) {
       c.add(kGradOut, DHYAN_F32, {2, 3, 4, 8});
     },
     "grad_out: shape [2, 3, 4, 8], dimension 3 (value head_dim) must be 6"},
    {"grad_out_dtype",
     [](Client& c) {
       c.add(kGradOut, DHYAN_F64, {2, 3, 4, 6});
     },
     "grad_out: dtype f64, it must be the query's, f32"},
    {"grad_lse_shape",
     [](Client& c) {
       c.add(kGradLse, DHYAN_F32, {2, 3, 4});
     },
     "grad_lse: shape [2, 3, 4], dimension 1 (query heads) must be 4"},
    {"grad_lse_dtype",
     [](Client& c) {
       c.add(kGradLse, DHYAN_F64, {2, 4, 3});
     },
     "grad_lse: dtype f64, it must be f32 for f32 inputs"},
    {"grad_query_shape",
     [](Client& c) {
       c.add(kGradQuery, DHYAN_F32, {2, 3, 2, 8});
     },
     "grad_query: shape [2, 3, 2, 8], dimension 2 (query heads) must be 4"},
    {"grad_key_dtype",
     [](Client& c) {
       c.add(kGradKey, DHYAN_BF16, {2, 5, 2, 8});
     },
     "grad_key: dtype bf16, it must be the query's, f32"},
    {"grad_value_shape",
     [](Client& c) {
       c.add(kGradValue, DHYAN_F32, {2, 5, 2, 8});
     },
     "grad_value: shape [2, 5, 2, 8], dimension 3 (value head_dim) must be 6"},
    {"grad_key_overlaps_itself", [](Client& c) { c[kGradKey].strides[1] = 8; },
     "grad_key: shape [2, 5, 2, 8] with strides [80, 8, 8, 1], elements of an output must not share memory"},
    {"grad_bias_alone",
     [](Client& c) {
       c.add(kGradBias, DHYAN_F32, {3, 5});
     },
     "grad_bias: given without a bias, there is nothing to take the gradient of"},
    {"grad_bias_shape",
     [](Client& c) {
       c.add(kBias, DHYAN_F32, {3, 5}), c.add(kGradBias, DHYAN_F32, {1, 1, 3, 5});
     },
     "grad_bias: shape [1, 1, 3, 5], it must be the bias's, [3, 5]"},
    {"grad_bias_dtype",
     [](Client& c) {
       c.add(kBias, DHYAN_F16, {3, 5}), c.add(kGradBias, DHYAN_F32, {3, 5});
     },
     "grad_bias: dtype f32, it must be the bias's, f16"},
    {"grad_sink_alone", [](Client& c) { c.add(kGradSink, DHYAN_F32, {4}); },
     "grad_sink: given without a sink, there is nothing to take the gradient of"},
    {"grad_sink_shape", [](Client& c) { c.add(kSink, DHYAN_F32, {4}), c.add(kGradSink, DHYAN_F32, {1}); },
     "grad_sink: shape [1], dimension 0 (query heads) must be 4"},
    {"grad_sink_dtype", [](Client& c) { c.add(kSink, DHYAN_F32, {4}), c.add(kGradSink, DHYAN_F64, {4}); },
     "grad_sink: dtype f64, it must be f32 for f32 inputs"},
};

class ForwardMistake : public ::testing::TestWithParam<Mistake> {};

TEST_P(ForwardMistake, IsAnsweredWithOneSentence) {
  Client client = small_forward();
  GetParam().make(client);
  const Answer planned = client.make_plan();
  EXPECT_EQ(planned.message, GetParam().sentence);
  EXPECT_EQ(planned.status, GetParam().status);
  const Answer ran = client.run_once();
  EXPECT_EQ(ran.message, planned.message);
  EXPECT_EQ(ran.status, planned.status);
}

INSTANTIATE_TEST_SUITE_P(Tensors, ForwardMistake, ::testing::ValuesIn(kTensorMistakes), mistake_name);
INSTANTIATE_TEST_SUITE_P(Options, ForwardMistake, ::testing::ValuesIn(kOptionMistakes), mistake_name);
INSTANTIATE_TEST_SUITE_P(Packed, ForwardMistake, ::testing::ValuesIn(kPackedMistakes), mistake_name);

class BackwardMistake : public ::testing::TestWithParam<Mistake> {};

TEST_P(BackwardMistake, IsAnsweredWithOneSentence) {
  Client client = small_backward();
  GetParam().make(client);
  const Answer planned = client.make_plan(DHYAN_BACKWARD);
  EXPECT_EQ(planned.message, GetParam().sentence);
  EXPECT_EQ(planned.status, GetParam().status);
  const Answer ran = client.run_once(DHYAN_BACKWARD);
  EXPECT_EQ(ran.message, planned.message);
  EXPECT_EQ(ran.status, planned.status);
}

INSTANTIATE_TEST_SUITE_P(Problems, BackwardMistake, ::testing::ValuesIn(kBackwardMistakes), mistake_name);

TEST(Validation, TheProblemsThatMistakesAreMadeInAreRight) {
  EXPECT_EQ(small_forward().run_once().message, "");
  EXPECT_EQ(small_backward().run_once(DHYAN_BACKWARD).message, "");
  Client packed = small_forward();
  pack(packed);
  EXPECT_EQ(packed.run_once().message, "");
}

TEST(Validation, DirectionMustBeForwardOrBackward) {
  EXPECT_EQ(small_forward().make_plan(2).message, "direction: 2, it must be DHYAN_FORWARD or DHYAN_BACKWARD");
}

}  // namespace
}  // namespace dhyan::testing

// SPDX-License-Identifier: Apache-2.0
// What cudnn refuses and why, and how problems are put in cuDNN's terms: all of it on any machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "core/sequence.hpp"
#include "cudnn/band.hpp"
#include "cudnn/description.hpp"
#include "cudnn/rules.hpp"
#include "support/case.hpp"

namespace dhyan::testing {
namespace {

using cudnn::Band;
using cudnn::Facts;

constexpr Facts kHopper{9, 0, std::int64_t{1} << 37, 91900};

core::Operand rows(std::int64_t tokens, std::int64_t heads, std::int64_t width) {
  return {DHYAN_BF16, {tokens * heads * width, heads * width, width, 1}, 16};
}

// B 2, T 128, S 256, N 4, K 2, H 64 in bf16: nothing to refuse.
core::Problem good(dhyan_direction direction) {
  core::Problem p;
  p.direction = direction;
  p.device_type = DHYAN_CUDA;
  p.dtype = DHYAN_BF16;
  p.batch = 2;
  p.query_length = p.query_tokens = 128;
  p.key_length = p.key_tokens = 256;
  p.query_heads = 4;
  p.key_heads = 2;
  p.head_dim = p.value_head_dim = 64;
  p.scale = 0.125;
  p.query = p.out = rows(128, 4, 64);
  p.key = p.value = rows(256, 2, 64);
  p.lse = {DHYAN_F32, {4 * 128, 128, 1, 0}, 4};
  if (direction == DHYAN_BACKWARD) {
    p.grad_out = p.grad_query = p.query;
    p.grad_key = p.grad_value = p.key;
  }
  return p;
}

struct Refused {
  const char* rule;
  std::function<void(core::Problem&, Facts&)> change;
  const char* sentence;
  dhyan_direction direction = DHYAN_FORWARD;
};

void add_bias(core::Problem& p, dhyan_dtype dtype) {
  p.bias = {dtype, {4 * 128 * 256, 128 * 256, 256, 1}, 4};
  p.bias_shape = {2, 4, 128, 256};
}

const core::Operand kPerHead{DHYAN_F32, {1, 0, 0, 0}, 4};

const std::vector<Refused>& refused() {
  static const std::vector<Refused> all{
      {"version", [](auto&, Facts& f) { f.version = 90804; },
       "cuDNN is version 9.8.4, 9.19.0 or newer is needed, since older ones give wrong gradients at the tails of lengths"},
      {"compute capability", [](auto&, Facts& f) { f.major = 7, f.minor = 5; },
       "the device has compute capability 7.5, cuDNN's attention needs 8.0 or newer"},
      {"dtype", [](auto& p, auto&) { p.dtype = DHYAN_F32; }, "dtype f32, cuDNN's attention takes f16 and bf16 only"},
      {"no elements", [](auto& p, auto&) { p.key_length = 0; }, "a size is 0, cuDNN has no tensors without elements"},
      {"sizes", [](auto& p, auto&) { p.key_length = std::int64_t{1} << 31; },
       "a size is over 2147483647, cuDNN counts in 32 bits"},
      {"head dimension", [](auto& p, auto&) { p.head_dim = 12; },
       "the head dimensions are 12 and 64, cuDNN needs multiples of 8; pad queries and keys or values with zeros"},
      {"large head dimension", [](auto& p, auto&) { p.value_head_dim = 264; },
       "the head dimensions are 64 and 264, above 256 cuDNN has no backward, and forward a slow kernel that was never tried "
       "here"},
      {"head dimension backward", [](auto& p, Facts& f) { p.head_dim = 192, f.major = 8; },
       "the head dimensions are 192 and 64, cuDNN's backward goes to 128 on a device of compute capability 8.x or 12.x",
       DHYAN_BACKWARD},
      {"alignment", [](auto& p, auto&) { p.value.alignment = 8; },
       "cuDNN loads 16 bytes at a time and checks nothing: pointers must be aligned to 16 bytes and strides be multiples of 8 "
       "elements"},
      {"far elements", [](auto& p, auto&) { p.key.strides[0] = std::int64_t{1} << 30; },
       "a tensor reaches past 2^31 elements, which was never tried with cuDNN"},
      {"dropout", [](auto& p, auto&) { p.dropout.threshold = 1; },
       "dropout: cuDNN draws other random numbers than dhyan.h promises"},
      {"softcap", [](auto& p, auto&) { p.softcap = 30; },
       "softcap: cuDNN has it as a graph of its own that excludes masks, causal and lengths"},
      {"alibi", [](auto& p, auto&) { p.alibi_slopes = kPerHead; },
       "alibi_slopes: cuDNN takes no slopes, it derives them from the number of heads; give the slopes as a bias"},
      {"mask", [](auto& p, auto&) { p.mask.dtype = DHYAN_BOOL; }, "mask: cuDNN has no boolean mask; give a bias of 0 and -inf"},
      {"dtype of bias", [](auto& p, auto&) { add_bias(p, DHYAN_F64); }, "bias: dtype f64, cuDNN takes f32, f16 and bf16"},
      {"bias over keys", [](auto& p, auto&) { add_bias(p, DHYAN_F32), p.bias_shape[3] = 1; },
       "bias: it broadcasts over the keys, which was never tried with cuDNN; give one number for each key"},
      {"bias with bottom-right", [](auto& p, auto&) { add_bias(p, DHYAN_F32), p.causal = DHYAN_CAUSAL_BOTTOM_RIGHT; },
       "bias: cuDNN has none with a causal or window aligned to the bottom right; give the mask as -inf in the bias"},
      {"dtype of grad_bias", [](auto& p, auto&) { add_bias(p, DHYAN_F32), p.grad_bias = p.bias; },
       "grad_bias: dtype f32, cuDNN's has no f32, and in f16 it loses what comes of small weights; bf16 is right",
       DHYAN_BACKWARD},
      {"sums of grad_bias", [](auto& p, auto&) { add_bias(p, DHYAN_BF16), p.grad_bias = p.bias, p.bias_shape[1] = 1; },
       "grad_bias: the bias broadcasts, cuDNN sums over batch entries and heads in 16 bits", DHYAN_BACKWARD},
      {"lengths with grad_bias",
       [](auto& p, auto&) {
         add_bias(p, DHYAN_BF16), p.grad_bias = p.bias, p.key_lengths = {DHYAN_I32, {1, 0, 0, 0}, 4};
       },
       "grad_bias: cuDNN leaves it unwritten past a length", DHYAN_BACKWARD},
      {"layout of grad_bias",
       [](auto& p, auto&) { add_bias(p, DHYAN_BF16), p.grad_bias = p.bias, p.grad_bias.strides[2] = 264; },
       "grad_bias: its rows must lie one behind the other, cuDNN ignores their stride", DHYAN_BACKWARD},
      {"gradient of lse", [](auto& p, auto&) { p.grad_lse = p.lse; }, "grad_lse: cuDNN's backward has no place for it",
       DHYAN_BACKWARD},
      {"origins", [](auto& p, auto&) { p.causal = DHYAN_CAUSAL_TOP_LEFT, p.key_origin = 3; },
       "query_origin and key_origin: they move the diagonal off where cuDNN's bounds begin"},
      {"scale", [](auto& p, auto&) { p.scale = 0x1p-40; },
       "scale 9.09495e-13: cuDNN multiplies by it after the product of queries and keys, which may be too large for a float by "
       "then"},
      {"negative scale", [](auto& p, auto&) { p.scale = -0.5; },
       "scale -0.5: cuDNN takes each row's largest product before it scales, which is the smallest with a negative scale; "
       "negate "
       "the queries instead"},
      {"many entries backward", [](auto& p, auto&) { p.query_heads = 65536; },
       "cuDNN's backward takes at most 65535 batch entries and 65535 heads", DHYAN_BACKWARD},
      {"one query and one key", [](auto& p, auto&) { p.query_length = p.key_length = 1; },
       "one query and one key: cuDNN's backward is broken there", DHYAN_BACKWARD},
      {"sink of one query", [](auto& p, auto&) { p.query_length = 1, p.sink = kPerHead; },
       "sink: cuDNN has none for a single query"},
      {"sink with lengths", [](auto& p, auto&) { p.packed = true, p.sink = kPerHead; },
       "sink: the backward of cuDNN 9.19.0 reads past the end of sequences of different lengths with it, 9.26.0 is the first "
       "that "
       "does not",
       DHYAN_BACKWARD},
      {"deterministic sink", [](auto& p, auto&) { p.deterministic = true, p.sink = p.grad_sink = kPerHead; },
       "deterministic: cuDNN sums grad_sink in any order", DHYAN_BACKWARD},
      {"deterministic memory",
       [](auto& p, auto&) { p.deterministic = true, p.query_length = p.key_length = std::int64_t{1} << 17; },
       "deterministic: cuDNN keeps the gradients of all weights for it, 274877906944 bytes, more than 80 % of the device's "
       "memory",
       DHYAN_BACKWARD},
  };
  return all;
}

TEST(CudnnRules, RefuseWithTheirSentence) {
  for (const Refused& row : refused()) {
    core::Problem p = good(row.direction);
    Facts facts = kHopper;
    EXPECT_EQ(cudnn::refusal(p, facts), std::nullopt) << row.rule;
    row.change(p, facts);
    EXPECT_EQ(cudnn::refusal(p, facts), row.sentence) << row.rule;
  }
}

TEST(CudnnRules, EachIsTested) {
  std::set<std::string> tested;
  for (const Refused& row : refused()) tested.insert(row.rule);
  for (const cudnn::Rule& rule : cudnn::rules()) EXPECT_EQ(tested.count(rule.name), 1) << rule.name;
  EXPECT_EQ(tested.size(), cudnn::rules().size());
}

TEST(CudnnRules, LetThroughWhatWorks) {
  const std::vector<std::function<void(core::Problem&)>> changes{
      [](auto& p) { p.dtype = DHYAN_F16; },
      [](auto& p) { p.causal = DHYAN_CAUSAL_TOP_LEFT; },
      [](auto& p) { p.causal = DHYAN_CAUSAL_BOTTOM_RIGHT, p.window_left = 16; },
      [](auto& p) { p.window_left = 3, p.window_right = 0; },
      [](auto& p) {
        p.query_lengths = {DHYAN_I32, {1, 0, 0, 0}, 4};
      },
      [](auto& p) { p.packed = true; },
      [](auto& p) { p.query_origin = 64, p.causal = DHYAN_CAUSAL_TOP_LEFT; },
      [](auto& p) { p.key_heads = 1; },
      [](auto& p) { p.head_dim = 128; },
      [](auto& p) { p.head_dim = 256; },
      [](auto& p) { p.scale = 3; },
      [](auto& p) { add_bias(p, DHYAN_F32); },
  };
  for (const dhyan_direction direction : {DHYAN_FORWARD, DHYAN_BACKWARD}) {
    for (const auto& change : changes) {
      core::Problem p = good(direction);
      change(p);
      EXPECT_EQ(cudnn::refusal(p, kHopper), std::nullopt);
    }
  }
}

bool sees(const Band& band, std::int64_t shift, std::int64_t t, std::int64_t s) {
  const std::int64_t at = t + (band.bottom_right ? shift : 0);
  return (band.left < 0 || s > at - band.left) && (band.right < 0 || s <= at + band.right);
}

// Every band that is possible shows each query the keys that the problem does, and an impossible one could not.
TEST(CudnnBand, ShowsWhatTheProblemShows) {
  int possible = 0;
  for (const std::int64_t queries : {1, 3, 5}) {
    for (const std::int64_t keys : {1, 4, 5}) {
      for (const dhyan_causal causal : {DHYAN_CAUSAL_OFF, DHYAN_CAUSAL_TOP_LEFT, DHYAN_CAUSAL_BOTTOM_RIGHT}) {
        for (const std::int64_t left : {-1, 0, 1, 3, 100}) {
          for (const std::int64_t right : {-1, 0, 2, 100}) {
            for (const std::int64_t origin : {-2, 0, 1}) {
              if (causal == DHYAN_CAUSAL_BOTTOM_RIGHT && origin != 0) continue;
              core::Problem p = good(DHYAN_FORWARD);
              p.query_length = p.query_tokens = queries;
              p.key_length = p.key_tokens = keys;
              p.causal = causal;
              p.window_left = left;
              p.window_right = right;
              (origin < 0 ? p.key_origin : p.query_origin) = std::abs(origin);
              const core::Sequence s = core::sequence(p, core::Buffers{}, 0);
              const Band band = cudnn::band_of(p);
              bool empty = false;
              for (std::int64_t t = 0; t < queries; ++t) {
                const core::KeyRange seen = core::visible_keys(p, s, t);
                empty = empty || seen.begin == seen.end;
                if (!band.possible) continue;
                for (std::int64_t key = 0; key < keys; ++key) {
                  ASSERT_EQ(sees(band, keys - queries, t, key), key >= seen.begin && key < seen.end)
                      << "T " << queries << " S " << keys << " causal " << causal << " window " << left << " " << right
                      << " origin " << origin << ": query " << t << " key " << key;
                }
              }
              EXPECT_EQ(cudnn::may_have_empty_rows(p), empty);
              EXPECT_TRUE(band.possible || origin != 0);
              possible += band.possible;
            }
          }
        }
      }
    }
  }
  EXPECT_GT(possible, 500);
}

TEST(CudnnBand, LengthsKeepBottomRight) {
  core::Problem p = good(DHYAN_FORWARD);
  p.query_length = p.key_length;
  p.causal = DHYAN_CAUSAL_BOTTOM_RIGHT;
  EXPECT_FALSE(cudnn::band_of(p).bottom_right);
  p.key_lengths = {DHYAN_I32, {1, 0, 0, 0}, 4};
  EXPECT_TRUE(cudnn::band_of(p).bottom_right);
}

TEST(CudnnDescription, HoldsWhatAPlanBakesIn) {
  const cudnn::Description d = cudnn::describe(good(DHYAN_FORWARD), kHopper);
  EXPECT_THAT(d.query.shape, ::testing::ElementsAre(2, 4, 128, 64));
  EXPECT_THAT(d.query.strides, ::testing::ElementsAre(128 * 256, 64, 256, 1));
  EXPECT_THAT(d.stats.strides, ::testing::ElementsAre(512, 128, 1, 1));
  EXPECT_FALSE(d.lengths);
  const std::vector<std::function<void(core::Problem&)>> changes{
      [](auto& p) { p.dtype = p.query.dtype = p.key.dtype = p.value.dtype = p.out.dtype = DHYAN_F16; },
      [](auto& p) { p.device_index = 1; },
      [](auto& p) { p.scale = 0.5; },
      [](auto& p) { p.key.strides[1] = 512; },
      [](auto& p) { p.lse = {}; },
      [](auto& p) { p.causal = DHYAN_CAUSAL_TOP_LEFT; },
      [](auto& p) { p.window_left = 5; },
      [](auto& p) {
        p.key_lengths = {DHYAN_I32, {1, 0, 0, 0}, 4};
      },
      [](auto& p) { p.sink = kPerHead; },
  };
  for (const auto& change : changes) {
    core::Problem p = good(DHYAN_FORWARD);
    change(p);
    EXPECT_NE(cudnn::describe(p, kHopper), d);
  }
  EXPECT_NE(cudnn::describe(good(DHYAN_FORWARD), Facts{9, 0, kHopper.memory_bytes, 92600}), d);
  EXPECT_NE(cudnn::describe(good(DHYAN_FORWARD), Facts{8, 9, kHopper.memory_bytes, 91900}), d);
  EXPECT_NE(cudnn::describe(good(DHYAN_BACKWARD), kHopper), d);
}

// cuDNN 9.19 reads past the end of tails backward.
TEST(CudnnDescription, TailsBackwardHaveLengths) {
  core::Problem p = good(DHYAN_BACKWARD);
  EXPECT_FALSE(cudnn::describe(p, kHopper).lengths);
  p.key_length = p.key_tokens = 192;
  EXPECT_TRUE(cudnn::describe(p, kHopper).lengths);
  p.key_length = p.key_tokens = 256;
  p.query_length = p.query_tokens = 100;
  EXPECT_TRUE(cudnn::describe(p, kHopper).lengths);
  EXPECT_FALSE(cudnn::describe(good(DHYAN_FORWARD), kHopper).lengths);
}

TEST(CudnnDescription, GradientsThatNobodyAskedForAreThere) {
  core::Problem p = good(DHYAN_BACKWARD);
  p.grad_key = {};
  const cudnn::Description d = cudnn::describe(p, kHopper);
  EXPECT_THAT(d.grad_key.strides, ::testing::ElementsAre(2 * 256 * 64, 256 * 64, 64, 1));
}

}  // namespace
}  // namespace dhyan::testing

// SPDX-License-Identifier: Apache-2.0
#include "cudnn/rules.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string_view>

#include "core/convert.hpp"
#include "cudnn/band.hpp"

namespace dhyan::cudnn {
namespace {

using core::Problem;

constexpr std::size_t kLeastVersion = 91900;  // older ones have more faults than are listed here, and were never tried
constexpr std::int64_t kMaxHeadDim = 256;
constexpr std::int64_t kMaxSize = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMaxGridBackward = 65535;  // blocks along a grid's second dimension
constexpr std::int32_t kAlignment = 16;
constexpr double kMaxReach = 0x1p31;
constexpr double kLeastScale = 0x1p-30;
constexpr double kShare = 0.8;  // of the device's memory

bool backward(const Problem& p) { return p.direction == DHYAN_BACKWARD; }

bool has_lengths(const Problem& p) { return p.packed || p.query_lengths.present() || p.key_lengths.present(); }

// Query, key, value, out and their gradients.
std::array<const core::Operand*, 8> rows_of(const Problem& p) {
  return {&p.query, &p.key, &p.value, &p.out, &p.grad_out, &p.grad_query, &p.grad_key, &p.grad_value};
}

// How many elements each of them spans.
std::array<double, 8> reaches(const Problem& p) {
  const auto reach = [&](const core::Operand& x, std::int64_t tokens, std::int64_t heads) {
    const auto along = [](std::int64_t size, std::int64_t stride) {
      return static_cast<double>(size) * static_cast<double>(stride);
    };
    return along(p.batch, x.strides[0]) + along(tokens, x.strides[1]) + along(heads, x.strides[2]);
  };
  std::array<double, 8> all{};
  const auto rows = rows_of(p);
  constexpr std::array<bool, 8> kQueries{true, false, false, true, true, true, false, false};
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = kQueries[i] ? reach(*rows[i], p.query_tokens, p.query_heads) : reach(*rows[i], p.key_tokens, p.key_heads);
  }
  return all;
}

// cuDNN loads 16 bytes at a time and checks nothing.
bool misaligned(const Problem& p, const Facts&) {
  return std::ranges::any_of(rows_of(p), [](const core::Operand* x) {
    if (!x->present()) return false;
    return x->alignment < kAlignment || x->strides[0] % 8 != 0 || x->strides[1] % 8 != 0 || x->strides[2] % 8 != 0;
  });
}

// What a deterministic backward keeps: the gradients of all weights.
double gradient_bytes(const Problem& p) {
  const auto padded = [](std::int64_t x) { return std::ceil(static_cast<double>(x) / 64) * 64; };
  return 2.0 * static_cast<double>(p.batch) * static_cast<double>(p.query_heads) * padded(p.query_length) *
         padded(p.key_length);
}

// On 8.x, and on 12.x, which cuDNN serves by the same kernels.
bool small_device(const Facts& f) { return f.major == 8 || f.major == 12; }

std::string dims_text(const Problem& p, const Facts&) {
  return std::to_string(p.head_dim) + " and " + std::to_string(p.value_head_dim);
}
std::string scale_text(const Problem& p, const Facts&) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", p.scale);
  return text;
}
std::string capability_text(const Problem&, const Facts& f) { return std::to_string(f.major) + "." + std::to_string(f.minor); }

constexpr Rule kRules[] = {
    {"version", [](const Problem&, const Facts& f) { return f.version < kLeastVersion; },
     "cuDNN is version {}, 9.19.0 or newer is needed, since older ones give wrong gradients at the tails of lengths",
     [](const Problem&, const Facts& f) { return version_text(f.version); }},
    {"compute capability", [](const Problem&, const Facts& f) { return f.major < 8; },
     "the device has compute capability {}, cuDNN's attention needs 8.0 or newer", capability_text},
    {"dtype", [](const Problem& p, const Facts&) { return p.dtype != DHYAN_F16 && p.dtype != DHYAN_BF16; },
     "dtype {}, cuDNN's attention takes f16 and bf16 only",
     [](const Problem& p, const Facts&) { return std::string(core::name_of(p.dtype)); }},
    {"no elements",
     [](const Problem& p, const Facts&) {
       return p.batch == 0 || p.query_length == 0 || p.key_length == 0 || p.query_heads == 0 || p.head_dim == 0 ||
              p.value_head_dim == 0;
     },
     "a size is 0, cuDNN has no tensors without elements"},
    {"sizes",
     [](const Problem& p, const Facts&) {
       return p.batch > kMaxSize || p.query_length > kMaxSize || p.key_length > kMaxSize || p.query_tokens > kMaxSize ||
              p.key_tokens > kMaxSize;
     },
     "a size is over 2147483647, cuDNN counts in 32 bits"},
    {"head dimension", [](const Problem& p, const Facts&) { return p.head_dim % 8 != 0 || p.value_head_dim % 8 != 0; },
     "the head dimensions are {}, cuDNN needs multiples of 8; pad queries and keys or values with zeros", dims_text},
    {"large head dimension",
     [](const Problem& p, const Facts&) { return p.head_dim > kMaxHeadDim || p.value_head_dim > kMaxHeadDim; },
     "the head dimensions are {}, above 256 cuDNN has no backward, and forward a slow kernel that was never tried here",
     dims_text},
    {"head dimension backward",
     [](const Problem& p, const Facts& f) {
       return backward(p) && small_device(f) && (p.head_dim > 128 || p.value_head_dim > 128);
     },
     "the head dimensions are {}, cuDNN's backward goes to 128 on a device of compute capability 8.x or 12.x", dims_text},
    {"alignment", misaligned,
     "cuDNN loads 16 bytes at a time and checks nothing: pointers must be aligned to 16 bytes and strides be multiples of 8 "
     "elements"},
    {"far elements",
     [](const Problem& p, const Facts&) {
       return std::ranges::any_of(reaches(p), [](double reach) { return reach > kMaxReach; });
     },
     "a tensor reaches past 2^31 elements, which was never tried with cuDNN"},
    {"dropout", [](const Problem& p, const Facts&) { return p.has_dropout(); },
     "dropout: cuDNN draws other random numbers than dhyan.h promises"},
    {"softcap", [](const Problem& p, const Facts&) { return p.softcap != 0; },
     "softcap: cuDNN has it as a graph of its own that excludes masks, causal and lengths"},
    {"alibi", [](const Problem& p, const Facts&) { return p.alibi_slopes.present(); },
     "alibi_slopes: cuDNN takes no slopes, it derives them from the number of heads; give the slopes as a bias"},
    {"mask", [](const Problem& p, const Facts&) { return p.mask.present(); },
     "mask: cuDNN has no boolean mask; give a bias of 0 and -inf"},
    {"dtype of bias", [](const Problem& p, const Facts&) { return p.bias.dtype == DHYAN_F64; },
     "bias: dtype f64, cuDNN takes f32, f16 and bf16"},
    {"bias over keys", [](const Problem& p, const Facts&) { return p.bias.present() && p.bias_shape[3] != p.key_length; },
     "bias: it broadcasts over the keys, which was never tried with cuDNN; give one number for each key"},
    {"bias with bottom-right", [](const Problem& p, const Facts&) { return p.bias.present() && band_of(p).bottom_right; },
     "bias: cuDNN has none with a causal or window aligned to the bottom right; give the mask as -inf in the bias"},
    {"dtype of grad_bias",
     [](const Problem& p, const Facts&) { return p.grad_bias.present() && p.grad_bias.dtype != DHYAN_BF16; },
     "grad_bias: dtype {}, cuDNN's has no f32, and in f16 it loses what comes of small weights; bf16 is right",
     [](const Problem& p, const Facts&) { return std::string(core::name_of(p.grad_bias.dtype)); }},
    {"sums of grad_bias",
     [](const Problem& p, const Facts&) {
       return p.grad_bias.present() && p.bias_shape != std::array{p.batch, p.query_heads, p.query_length, p.key_length};
     },
     "grad_bias: the bias broadcasts, cuDNN sums over batch entries and heads in 16 bits"},
    {"lengths with grad_bias", [](const Problem& p, const Facts&) { return p.grad_bias.present() && has_lengths(p); },
     "grad_bias: cuDNN leaves it unwritten past a length"},
    {"layout of grad_bias",
     [](const Problem& p, const Facts&) {
       return p.grad_bias.present() && p.query_length > 1 && p.grad_bias.strides[2] != p.key_length;
     },
     "grad_bias: its rows must lie one behind the other, cuDNN ignores their stride"},
    {"gradient of lse", [](const Problem& p, const Facts&) { return p.grad_lse.present(); },
     "grad_lse: cuDNN's backward has no place for it"},
    {"origins", [](const Problem& p, const Facts&) { return !band_of(p).possible; },
     "query_origin and key_origin: they move the diagonal off where cuDNN's bounds begin"},
    {"scale", [](const Problem& p, const Facts&) { return p.dtype == DHYAN_BF16 && std::abs(p.scale) < kLeastScale; },
     "scale {}: cuDNN multiplies by it after the product of queries and keys, which may be too large for a float by then",
     scale_text},
    {"negative scale", [](const Problem& p, const Facts&) { return p.direction == DHYAN_FORWARD && p.scale < 0; },
     "scale {}: cuDNN takes each row's largest product before it scales, which is the smallest with a negative scale; negate "
     "the "
     "queries instead",
     scale_text},
    {"many entries backward",
     [](const Problem& p, const Facts&) {
       return backward(p) && (p.batch > kMaxGridBackward || p.query_heads > kMaxGridBackward);
     },
     "cuDNN's backward takes at most 65535 batch entries and 65535 heads"},
    {"one query and one key",
     [](const Problem& p, const Facts&) { return backward(p) && p.query_length == 1 && p.key_length == 1; },
     "one query and one key: cuDNN's backward is broken there"},
    {"sink of one query", [](const Problem& p, const Facts&) { return p.sink.present() && p.query_length == 1; },
     "sink: cuDNN has none for a single query"},
    {"sink with lengths",
     [](const Problem& p, const Facts& f) { return backward(p) && p.sink.present() && has_lengths(p) && f.version < 92600; },
     "sink: the backward of cuDNN {} reads past the end of sequences of different lengths with it, 9.26.0 is the first that "
     "does "
     "not",
     [](const Problem&, const Facts& f) { return version_text(f.version); }},
    {"deterministic sink", [](const Problem& p, const Facts&) { return p.deterministic && p.grad_sink.present(); },
     "deterministic: cuDNN sums grad_sink in any order"},
    {"deterministic memory",
     [](const Problem& p, const Facts& f) {
       return backward(p) && p.deterministic && gradient_bytes(p) > kShare * static_cast<double>(f.memory_bytes);
     },
     "deterministic: cuDNN keeps the gradients of all weights for it, {} bytes, more than 80 % of the device's memory",
     [](const Problem& p, const Facts&) { return std::to_string(static_cast<std::int64_t>(gradient_bytes(p))); }},
};

}  // namespace

std::span<const Rule> rules() { return kRules; }

std::optional<std::string> refusal(const Problem& p, const Facts& facts) {
  for (const Rule& rule : kRules) {
    if (!rule.breaks(p, facts)) continue;
    std::string sentence = rule.sentence;
    if (rule.value != nullptr) sentence.replace(sentence.find("{}"), 2, rule.value(p, facts));
    return sentence;
  }
  return std::nullopt;
}

std::string version_text(std::size_t version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." + std::to_string(version % 100);
}

}  // namespace dhyan::cudnn

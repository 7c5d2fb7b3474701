// SPDX-License-Identifier: Apache-2.0
#include "api/options.hpp"

#include <cfloat>
#include <cmath>
#include <cstdio>
#include <string>

#include "api/tensor.hpp"
#include "core/convert.hpp"
#include "core/error.hpp"

namespace dhyan::api {
namespace {

[[noreturn]] void refuse(const char* name, const std::string& value, const std::string& rule) {
  throw core::Error(DHYAN_INVALID_ARGUMENT, std::string(name) + ": " + value + ", " + rule);
}

std::string text(double x) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.9g", x);
  return buffer;
}

void check_range(const char* name, std::int64_t value, std::int64_t low, std::int64_t high, const char* rule) {
  if (value < low || value > high) refuse(name, std::to_string(value), rule);
}

double scale_of(const dhyan_options& o, const core::Problem& p) {
  if (std::isnan(o.scale)) return p.head_dim == 0 ? 1.0 : 1.0 / std::sqrt(static_cast<double>(p.head_dim));
  if (std::isinf(o.scale)) refuse("scale", text(o.scale), "it must be finite (NaN: 1 / sqrt(head_dim))");
  if (p.dtype != DHYAN_F64 && std::abs(o.scale) > FLT_MAX) {
    refuse("scale", text(o.scale), std::string("it must fit float32 for ") + core::name_of(p.dtype) + " inputs");
  }
  return o.scale;
}

double softcap_of(const dhyan_options& o, const core::Problem& p) {
  if (!std::isfinite(o.softcap) || o.softcap < 0) {
    refuse("softcap", text(o.softcap), "it must be 0 (off) or positive and finite");
  }
  const bool wide = p.dtype == DHYAN_F64;
  if (o.softcap != 0 && (o.softcap < (wide ? DBL_MIN : FLT_MIN) || o.softcap > (wide ? DBL_MAX : FLT_MAX))) {
    refuse("softcap", text(o.softcap), std::string("it must be a normal ") + (wide ? "float64" : "float32"));
  }
  return o.softcap == 0 ? 0.0 : o.softcap;
}

core::Dropout dropout_of(const dhyan_options& o, const core::Problem& p) {
  const double probability = o.dropout_probability;
  if (probability == 0) return {};
  if (!(probability >= 0x1p-32 && probability < 1)) {
    refuse("dropout_probability", text(probability), "it must be 0 or from 2^-32 to below 1");
  }
  // The generator counts positions in 32 bits (keys: in fours).
  const auto counted = [](const char* name, std::int64_t origin, std::int64_t count, int bits) {
    if (origin + count > std::int64_t{1} << bits) {
      refuse(name, std::to_string(origin),
             "dropout counts positions up to 2^" + std::to_string(bits) + ", this shard has " + std::to_string(count));
    }
  };
  counted("batch_origin", p.batch_origin, p.batch, 32);
  counted("head_origin", p.head_origin, p.query_heads, 32);
  counted("query_origin", p.query_origin, p.query_length, 32);
  counted("key_origin", p.key_origin, p.key_length, 34);
  return {probability, static_cast<std::uint64_t>(std::floor(probability * 0x1p32)),
          o.dropout_seed + 0x9E3779B97F4A7C15u * o.dropout_offset};
}

}  // namespace

void apply_options(const dhyan_options& o, const dhyan_device_description& device, core::Problem& p) {
  check_range("implementation", o.implementation, DHYAN_AUTO, DHYAN_CUDNN, "it must be one of the DHYAN_ implementations");
  check_range("causal", o.causal, DHYAN_CAUSAL_OFF, DHYAN_CAUSAL_BOTTOM_RIGHT, "it must be off, top-left or bottom-right");
  check_range("window_left", o.window_left, -1, INT64_MAX, "it must be -1 (unlimited) or a count of keys");
  check_range("window_right", o.window_right, -1, INT64_MAX, "it must be -1 (unlimited) or a count of keys");
  check_range("batch_origin", o.batch_origin, 0, kMaxDimension, "it must be 0 to 2^40");
  check_range("head_origin", o.head_origin, 0, kMaxDimension, "it must be 0 to 2^40");
  check_range("query_origin", o.query_origin, 0, kMaxDimension, "it must be 0 to 2^40");
  check_range("key_origin", o.key_origin, 0, kMaxDimension, "it must be 0 to 2^40");
  check_range("threads", o.threads, 0, 1024, "it must be 0 (all) to 1024");
  check_range("allow_jit", o.allow_jit, 0, 1, "it must be 0 or 1");
  check_range("check_pointers", o.check_pointers, 0, 1, "it must be 0 or 1");
  check_range("deterministic", o.deterministic, 0, 1, "it must be 0 or 1");
  check_range("reserved", o.reserved, 0, 0, "it must be 0");
  check_range("precision", o.precision, DHYAN_PRECISION_DEFAULT, DHYAN_PRECISION_TF32, "it must be default or tf32");
  if (o.precision == DHYAN_PRECISION_TF32 && device.device_type == DHYAN_CPU) {
    throw core::Error(DHYAN_UNSUPPORTED, "precision: tf32, a CPU multiplies f32 as f32; use the default precision");
  }
  if (o.threads != 0 && device.device_type == DHYAN_CUDA) {
    refuse("threads", std::to_string(o.threads), "only a CPU has threads to set; leave it 0 on a CUDA device");
  }
  if (o.causal == DHYAN_CAUSAL_BOTTOM_RIGHT && (o.query_origin != 0 || o.key_origin != 0)) {
    const bool query = o.query_origin != 0;
    refuse(query ? "query_origin" : "key_origin", std::to_string(query ? o.query_origin : o.key_origin),
           "bottom-right causal masking cannot be sharded; use top-left, or origin 0");
  }

  p.requested = o.implementation;
  p.causal = o.causal;
  p.batch_origin = o.batch_origin;
  p.head_origin = o.head_origin;
  p.query_origin = o.query_origin;
  p.key_origin = o.key_origin;
  p.precision = o.precision;
  p.threads = o.threads == 0 ? device.threads : o.threads;
  p.allow_jit = o.allow_jit != 0;
  p.check_pointers = o.check_pointers != 0;
  p.deterministic = o.deterministic != 0;
  p.scale = scale_of(o, p);
  p.softcap = softcap_of(o, p);
  p.dropout = dropout_of(o, p);

  // A window that reaches over every key hides nothing, and causal masking hides all that window_right could.
  const std::int64_t span = p.query_length + p.key_length + p.query_origin + p.key_origin;
  p.window_left = o.window_left >= span ? -1 : o.window_left;
  p.window_right = o.window_right >= span || p.causal != DHYAN_CAUSAL_OFF ? -1 : o.window_right;
}

}  // namespace dhyan::api

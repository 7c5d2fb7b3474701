// SPDX-License-Identifier: Apache-2.0
// Rows of any floating type, read and written as float or double.
#pragma once

#include <cstdint>

#include "core/convert.hpp"

namespace dhyan::api {

inline float as(float x, float) { return x; }
inline double as(float x, double) { return x; }
inline float as(double x, float) { return static_cast<float>(x); }
inline double as(double x, double) { return x; }

// to[i] = from[i * stride], i in [0, count). Exact, except f64 read as float.
template <class Number>
void load_row(const void* from, dhyan_dtype dtype, std::int64_t stride, std::int64_t count, Number* to) {
  const auto each = [&](const auto* x, const auto& widen) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = as(widen(x[i * stride]), Number{});
  };
  switch (dtype) {
    case DHYAN_F64:
      return each(static_cast<const double*>(from), [](double x) { return x; });
    case DHYAN_F32:
      return each(static_cast<const float*>(from), [](float x) { return x; });
    case DHYAN_F16:
      return each(static_cast<const core::Float16*>(from), [](core::Float16 x) { return core::to_float(x); });
    default:
      return each(static_cast<const core::BFloat16*>(from), [](core::BFloat16 x) { return core::to_float(x); });
  }
}

// to[i * stride] = from[i], rounded once to nearest even.
template <class Number>
void store_row(const Number* from, std::int64_t count, void* to, dhyan_dtype dtype, std::int64_t stride) {
  const auto each = [&](auto* x, const auto& round) {
    for (std::int64_t i = 0; i < count; ++i) x[i * stride] = round(from[i]);
  };
  switch (dtype) {
    case DHYAN_F64:
      return each(static_cast<double*>(to), [](Number x) { return static_cast<double>(x); });
    case DHYAN_F32:
      return each(static_cast<float*>(to), [](Number x) { return static_cast<float>(x); });
    case DHYAN_F16:
      return each(static_cast<core::Float16*>(to), [](Number x) { return core::to_float16(x); });
    default:
      return each(static_cast<core::BFloat16*>(to), [](Number x) { return core::to_bfloat16(x); });
  }
}

}  // namespace dhyan::api

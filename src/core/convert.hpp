// SPDX-License-Identifier: Apache-2.0
// Half-precision conversions, to nearest even, and the sizes of element types.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "dhyan/dhyan.h"

namespace dhyan::core {

struct BFloat16 {
  std::uint16_t bits;
};
struct Float16 {
  std::uint16_t bits;
};

inline std::size_t size_of(dhyan_dtype dtype) {
  switch (dtype) {
    case DHYAN_F64:
    case DHYAN_I64:
      return 8;
    case DHYAN_F32:
    case DHYAN_I32:
      return 4;
    case DHYAN_F16:
    case DHYAN_BF16:
      return 2;
    case DHYAN_E4M3:
    case DHYAN_E5M2:
    case DHYAN_BOOL:
      return 1;
    default:
      return 0;
  }
}

inline const char* name_of(dhyan_dtype dtype) {
  switch (dtype) {
    case DHYAN_F64:
      return "f64";
    case DHYAN_F32:
      return "f32";
    case DHYAN_F16:
      return "f16";
    case DHYAN_BF16:
      return "bf16";
    case DHYAN_E4M3:
      return "e4m3";
    case DHYAN_E5M2:
      return "e5m2";
    case DHYAN_BOOL:
      return "bool";
    case DHYAN_I32:
      return "i32";
    case DHYAN_I64:
      return "i64";
    default:
      return "none";
  }
}

inline float to_float(BFloat16 x) { return std::bit_cast<float>(std::uint32_t{x.bits} << 16); }

inline BFloat16 to_bfloat16(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return {static_cast<std::uint16_t>((bits >> 16) | 0x40)};  // a NaN stays one
  return {static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)};
}

inline float to_float(Float16 x) {
  const std::uint32_t sign = std::uint32_t{x.bits & 0x8000u} << 16;
  const std::uint32_t exponent = (x.bits >> 10) & 0x1F;
  const std::uint32_t mantissa = x.bits & 0x3FF;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000 | (mantissa << 13));
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

inline Float16 to_float16(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = (bits >> 16) & 0x8000;
  const std::uint32_t magnitude = bits & 0x7FFFFFFF;
  std::uint32_t half;
  if (magnitude > 0x7F800000) {
    half = 0x7E00 | ((magnitude >> 13) & 0x3FF);
  } else if (magnitude >= 0x47800000) {  // 65536 and up
    half = 0x7C00;
  } else if (magnitude < 0x38800000) {  // below 2^-14: adding 0.5 leaves the subnormal's integer in the low bits, rounded
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3F000000;
  } else {
    half = (magnitude - 0x38000000 + 0xFFF + ((magnitude >> 13) & 1)) >> 13;
  }
  return {static_cast<std::uint16_t>(sign | half)};
}

// A double is rounded once: through float with round-to-odd, so that the second rounding sees what the first cut off.
inline float to_float_odd(double x) {
  const float nearest = static_cast<float>(x);
  const double back = static_cast<double>(nearest);
  if (back == x || x != x || (std::bit_cast<std::uint32_t>(nearest) & 1)) return nearest;
  std::uint32_t bits = std::bit_cast<std::uint32_t>(nearest);
  if ((bits & 0x7FFFFFFF) == 0x7F800000) return nearest;
  const bool away = (back > x) == (x > 0);  // rounded away from zero
  bits = away ? bits - 1 : bits + 1;
  return std::bit_cast<float>(bits);
}

inline BFloat16 to_bfloat16(double x) { return to_bfloat16(to_float_odd(x)); }
inline Float16 to_float16(double x) { return to_float16(to_float_odd(x)); }

// Reads and writes one element of a floating type as double.
inline double load(const void* data, dhyan_dtype dtype, std::int64_t i) {
  switch (dtype) {
    case DHYAN_F64:
      return static_cast<const double*>(data)[i];
    case DHYAN_F32:
      return static_cast<const float*>(data)[i];
    case DHYAN_F16:
      return to_float(static_cast<const Float16*>(data)[i]);
    default:
      return to_float(static_cast<const BFloat16*>(data)[i]);
  }
}

inline void store(void* data, dhyan_dtype dtype, std::int64_t i, double x) {
  switch (dtype) {
    case DHYAN_F64:
      static_cast<double*>(data)[i] = x;
      break;
    case DHYAN_F32:
      static_cast<float*>(data)[i] = static_cast<float>(x);
      break;
    case DHYAN_F16:
      static_cast<Float16*>(data)[i] = to_float16(x);
      break;
    default:
      static_cast<BFloat16*>(data)[i] = to_bfloat16(x);
      break;
  }
}

inline void* advance(void* data, dhyan_dtype dtype, std::int64_t elements) {
  return static_cast<std::byte*>(data) + elements * static_cast<std::int64_t>(size_of(dtype));
}
inline const void* advance(const void* data, dhyan_dtype dtype, std::int64_t elements) {
  return static_cast<const std::byte*>(data) + elements * static_cast<std::int64_t>(size_of(dtype));
}

}  // namespace dhyan::core

// SPDX-License-Identifier: Apache-2.0
// One element whose type is known at run time only.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cfloat>
#include <cstdint>

#include "dhyan/dhyan.h"

namespace dhyan::cuda::tile {

// A finite f64 stays finite: a row whose keys all carry a large negative one is not a masked row.
__device__ __forceinline__ double kept_finite(double x, double) { return x; }
__device__ __forceinline__ float kept_finite(double x, float) {
  return static_cast<float>(isinf(x) ? x : fmin(fmax(x, -static_cast<double>(FLT_MAX)), static_cast<double>(FLT_MAX)));
}

template <class Real>
__device__ __forceinline__ Real element(const void* data, dhyan_dtype dtype, std::int64_t i) {
  switch (dtype) {
    case DHYAN_F64:
      return kept_finite(static_cast<const double*>(data)[i], Real{});
    case DHYAN_F32:
      return static_cast<const float*>(data)[i];
    case DHYAN_F16:
      return __half2float(static_cast<const __half*>(data)[i]);
    default:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]);
  }
}

// Rounded once, to nearest even.
__device__ __forceinline__ void store_element(void* data, dhyan_dtype dtype, std::int64_t i, double x) {
  switch (dtype) {
    case DHYAN_F64:
      static_cast<double*>(data)[i] = x;
      break;
    case DHYAN_F32:
      static_cast<float*>(data)[i] = static_cast<float>(x);
      break;
    case DHYAN_F16:
      static_cast<__half*>(data)[i] = __double2half(x);
      break;
    default:
      static_cast<__nv_bfloat16*>(data)[i] = __double2bfloat16(x);
      break;
  }
}
__device__ __forceinline__ void store_element(void* data, dhyan_dtype dtype, std::int64_t i, float x) {
  switch (dtype) {
    case DHYAN_F64:
      static_cast<double*>(data)[i] = x;
      break;
    case DHYAN_F32:
      static_cast<float*>(data)[i] = x;
      break;
    case DHYAN_F16:
      static_cast<__half*>(data)[i] = __float2half_rn(x);
      break;
    default:
      static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16_rn(x);
      break;
  }
}

}  // namespace dhyan::cuda::tile

// SPDX-License-Identifier: Apache-2.0
// The two 16-bit types as the kernels use them: pairs in one register.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace dhyan::cuda::tile {

__device__ __forceinline__ float widened(__half x) { return __half2float(x); }
__device__ __forceinline__ float widened(__nv_bfloat16 x) { return __bfloat162float(x); }

template <class T>
__device__ __forceinline__ T narrowed(float x);
template <>
__device__ __forceinline__ __half narrowed<__half>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ __forceinline__ __nv_bfloat16 narrowed<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

// Two elements, the first one in the low half.
template <class T>
__device__ __forceinline__ std::uint32_t packed(float first, float second);
template <>
__device__ __forceinline__ std::uint32_t packed<__half>(float first, float second) {
  const __half2 pair = __floats2half2_rn(first, second);
  return reinterpret_cast<const std::uint32_t&>(pair);
}
template <>
__device__ __forceinline__ std::uint32_t packed<__nv_bfloat16>(float first, float second) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
  return reinterpret_cast<const std::uint32_t&>(pair);
}

// Both elements times a factor of their own type, exact where the factor is a power of two.
template <class T>
__device__ __forceinline__ std::uint32_t scaled(std::uint32_t pair, float factor);
template <>
__device__ __forceinline__ std::uint32_t scaled<__half>(std::uint32_t pair, float factor) {
  const __half2 product = __hmul2(reinterpret_cast<const __half2&>(pair), __float2half2_rn(factor));
  return reinterpret_cast<const std::uint32_t&>(product);
}
template <>
__device__ __forceinline__ std::uint32_t scaled<__nv_bfloat16>(std::uint32_t pair, float factor) {
  const __nv_bfloat162 product = __hmul2(reinterpret_cast<const __nv_bfloat162&>(pair), __float2bfloat162_rn(factor));
  return reinterpret_cast<const std::uint32_t&>(product);
}

}  // namespace dhyan::cuda::tile

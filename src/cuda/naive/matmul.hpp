// SPDX-License-Identifier: Apache-2.0
// Batched matrix products by cuBLASLt, rows contiguous.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "cuda/runtime/cublaslt.hpp"
#include "dhyan/dhyan.h"

namespace dhyan::cuda::naive {

// result[rows][columns] = alpha * left right. In memory left is [rows][depth], transposed [depth][rows]; right is
// [depth][columns], transposed [columns][depth]. All strides in elements.
struct MatmulShape {
  bool left_transposed = false, right_transposed = false;
  dhyan_dtype input = DHYAN_NONE, output = DHYAN_NONE;  // output: the inputs' type, or f32
  bool tf32 = false;                                    // f32 inputs may be multiplied as TF32
  std::int64_t rows = 0, columns = 0, depth = 0;
  std::int64_t left_stride = 0, right_stride = 0, result_stride = 0;
  std::int32_t batches = 1;
  std::int64_t left_batch = 0, right_batch = 0, result_batch = 0;
};

// A product made ready: immutable, may run from many threads. The device must be current, here and in run.
class Matmul {
 public:
  // Every operand and every stride is aligned to 16 bytes. Throws Error when cuBLASLt has no way to do it.
  Matmul(const MatmulShape& shape, int device);

  std::size_t workspace_bytes() const { return algorithm_.workspaceSize; }
  // `workspace` is aligned to 256 bytes.
  void run(double alpha, const void* left, const void* right, void* result, void* workspace, cudaStream_t stream) const;

 private:
  struct Destroy {
    void operator()(cublasLtMatmulDesc_t x) const { cublas_lt().operation_destroy(x); }
    void operator()(cublasLtMatrixLayout_t x) const { cublas_lt().layout_destroy(x); }
    void operator()(cublasLtMatmulPreference_t x) const { cublas_lt().preference_destroy(x); }
  };
  template <class Opaque>
  using Owned = std::unique_ptr<Opaque, Destroy>;

  static Owned<cublasLtMatrixLayoutOpaque_t> layout(dhyan_dtype dtype, std::int64_t rows, std::int64_t columns,
                                                    std::int64_t stride, std::int32_t batches, std::int64_t batch_stride);

  cublasLtHandle_t handle_;
  bool wide_;  // f64: alpha and beta are doubles
  Owned<cublasLtMatmulDescOpaque_t> operation_;
  Owned<cublasLtMatrixLayoutOpaque_t> left_, right_, result_;
  cublasLtMatmulHeuristicResult_t algorithm_{};
};

}  // namespace dhyan::cuda::naive

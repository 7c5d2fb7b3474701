// SPDX-License-Identifier: Apache-2.0
#include "cuda/naive/matmul.hpp"

#include <string>

#include "core/error.hpp"

namespace dhyan::cuda::naive {
namespace {

constexpr std::size_t kMaxWorkspace = std::size_t{32} << 20;  // what cuBLAS recommends on Hopper
constexpr std::uint32_t kAlignment = 16;

cudaDataType_t type_of(dhyan_dtype dtype) {
  switch (dtype) {
    case DHYAN_F64:
      return CUDA_R_64F;
    case DHYAN_F32:
      return CUDA_R_32F;
    case DHYAN_F16:
      return CUDA_R_16F;
    default:
      return CUDA_R_16BF;
  }
}

template <class Value>
void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  check(cublas_lt().operation_set(operation, attribute, &value, sizeof value), "cublasLtMatmulDescSetAttribute");
}
template <class Value>
void set(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, const Value& value) {
  check(cublas_lt().layout_set(layout, attribute, &value, sizeof value), "cublasLtMatrixLayoutSetAttribute");
}
template <class Value>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute, const Value& value) {
  check(cublas_lt().preference_set(preference, attribute, &value, sizeof value), "cublasLtMatmulPreferenceSetAttribute");
}

std::string text(const MatmulShape& s) {
  return std::to_string(s.batches) + " products of " + std::to_string(s.rows) + " x " + std::to_string(s.depth) + " and " +
         std::to_string(s.depth) + " x " + std::to_string(s.columns);
}

}  // namespace

// cuBLAS counts columns: a matrix of contiguous rows is its transpose there, and the product's factors change places.
Matmul::Matmul(const MatmulShape& s, int device) : handle_(cublas_lt_handle(device)), wide_(s.input == DHYAN_F64) {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  if (wide_) compute = CUBLAS_COMPUTE_64F;
  if (s.input == DHYAN_F32 && s.tf32) compute = CUBLAS_COMPUTE_32F_FAST_TF32;

  cublasLtMatmulDesc_t operation;
  check(cublas_lt().operation_create(&operation, compute, wide_ ? CUDA_R_64F : CUDA_R_32F), "cublasLtMatmulDescCreate");
  operation_.reset(operation);
  set(operation, CUBLASLT_MATMUL_DESC_TRANSA, s.right_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(operation, CUBLASLT_MATMUL_DESC_TRANSB, s.left_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  left_ = s.left_transposed ? layout(s.input, s.rows, s.depth, s.left_stride, s.batches, s.left_batch)
                            : layout(s.input, s.depth, s.rows, s.left_stride, s.batches, s.left_batch);
  right_ = s.right_transposed ? layout(s.input, s.depth, s.columns, s.right_stride, s.batches, s.right_batch)
                              : layout(s.input, s.columns, s.depth, s.right_stride, s.batches, s.right_batch);
  result_ = layout(s.output, s.columns, s.rows, s.result_stride, s.batches, s.result_batch);

  cublasLtMatmulPreference_t made;
  check(cublas_lt().preference_create(&made), "cublasLtMatmulPreferenceCreate");
  const Owned<cublasLtMatmulPreferenceOpaque_t> preference(made);
  set(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMaxWorkspace);
  // Split sums may only meet in the type they were computed in, never in a 16-bit output.
  set(made, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  for (const auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                               CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set(made, attribute, kAlignment);
  }
  int found = 0;
  const cublasStatus_t status = cublas_lt().heuristic(handle_, operation, right_.get(), left_.get(), result_.get(),
                                                      result_.get(), made, 1, &algorithm_, &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && found == 0)) {
    throw core::Error(DHYAN_UNSUPPORTED, "implementation: naive cannot run this problem: cuBLASLt has no way to do " + text(s));
  }
  check(status, "cublasLtMatmulAlgoGetHeuristic");
}

auto Matmul::layout(dhyan_dtype dtype, std::int64_t rows, std::int64_t columns, std::int64_t stride, std::int32_t batches,
                    std::int64_t batch_stride) -> Owned<cublasLtMatrixLayoutOpaque_t> {
  cublasLtMatrixLayout_t made;
  check(cublas_lt().layout_create(&made, type_of(dtype), static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns),
                                  stride),
        "cublasLtMatrixLayoutCreate");
  Owned<cublasLtMatrixLayoutOpaque_t> owned(made);
  set(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, batches);
  set(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, batch_stride);
  return owned;
}

void Matmul::run(double alpha, const void* left, const void* right, void* result, void* workspace, cudaStream_t stream) const {
  const double wide[] = {alpha, 0.0};
  const float narrow[] = {static_cast<float>(alpha), 0.0f};
  const void* one = wide_ ? static_cast<const void*>(&wide[0]) : &narrow[0];
  const void* zero = wide_ ? static_cast<const void*>(&wide[1]) : &narrow[1];
  check(cublas_lt().matmul(handle_, operation_.get(), one, right, right_.get(), left, left_.get(), zero, result, result_.get(),
                           result, result_.get(), &algorithm_.algo, workspace, algorithm_.workspaceSize, stream),
        "cublasLtMatmul");
}

}  // namespace dhyan::cuda::naive

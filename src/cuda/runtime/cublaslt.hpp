// SPDX-License-Identifier: Apache-2.0
// cuBLASLt, opened at run time.
#pragma once

#include <cublasLt.h>

#include <string>

namespace dhyan::cuda {

// The functions that are used here; the header's own types.
struct CublasLt {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtGetVersion) version;
  decltype(&cublasLtGetStatusString) status_text;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmulDescCreate) operation_create;
  decltype(&cublasLtMatmulDescDestroy) operation_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) operation_set;
  decltype(&cublasLtMatrixLayoutCreate) layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
};

// Why there is none; empty when there is.
const std::string& cublas_lt_missing();
// Throws Error when it is missing.
const CublasLt& cublas_lt();
std::string cublas_lt_version();  // "13.1.0"
std::string cublas_lt_path();

// One per device, made when it is first asked for and never destroyed; the device must be current.
cublasLtHandle_t cublas_lt_handle(int device);

// Throws Error unless the status is success.
void check(cublasStatus_t status, const char* action);

}  // namespace dhyan::cuda

// Products by their addresses on a CPU.
#pragma once

#include "cublasLt.h"

using cublasHandle_t = void*;
enum cublasGemmAlgo_t { CUBLAS_GEMM_DEFAULT };
inline cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  static int made;
  *handle = &made;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasSetStream(cublasHandle_t, cudaStream_t) { return CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasSetWorkspace(cublasHandle_t, void*, size_t) { return CUBLAS_STATUS_SUCCESS; }

inline cublasStatus_t cublasGemmBatchedEx(cublasHandle_t, cublasOperation_t a_kind, cublasOperation_t b_kind, int m, int n, int k, const void* alpha,
                                          const void* const a[], cudaDataType_t a_type, int lda, const void* const b[], cudaDataType_t b_type, int ldb,
                                          const void* beta, void* const d[], cudaDataType_t d_type, int ldd, int count, cublasComputeType_t, cublasGemmAlgo_t) {
  HostMatmul kind{a_kind, b_kind};
  bool ta = a_kind == CUBLAS_OP_T, tb = b_kind == CUBLAS_OP_T;
  auto matrix = [](cudaDataType_t type, int rows, int columns, int pitch) {
    return HostMatrix{type, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), pitch};
  };
  HostMatrix la = matrix(a_type, ta ? k : m, ta ? m : k, lda), lb = matrix(b_type, tb ? n : k, tb ? k : n, ldb), ld = matrix(d_type, m, n, ldd);
  cublasLtMatmulAlgo_t algorithm;
  for (int i = 0; i < count; ++i) cublasLtMatmul(nullptr, &kind, alpha, a[i], &la, b[i], &lb, beta, d[i], &ld, d[i], &ld, &algorithm, nullptr, 0, nullptr);
  return CUBLAS_STATUS_SUCCESS;
}

// cuBLASLt's products on a CPU, as many of them as a step asks for: one algorithm, three loops.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

using cublasLtHandle_t = void*;
enum cublasStatus_t { CUBLAS_STATUS_SUCCESS };
inline const char* cublasLtGetStatusString(cublasStatus_t) { return "an error"; }
inline cublasStatus_t cublasLtCreate(cublasLtHandle_t*) { return CUBLAS_STATUS_SUCCESS; }
inline unsigned cublasLtGetVersion() { return 0; }

enum cublasComputeType_t { CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_FAST_TF32 };
enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T };
enum cublasLtEpilogue_t { CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU_BIAS };
enum cublasLtMatmulDescAttributes_t {
  CUBLASLT_MATMUL_DESC_TRANSA,
  CUBLASLT_MATMUL_DESC_TRANSB,
  CUBLASLT_MATMUL_DESC_EPILOGUE,
  CUBLASLT_MATMUL_DESC_BIAS_POINTER,
  CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE
};
enum cublasLtMatmulPreferenceAttributes_t {
  CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES
};
enum cublasLtMatrixLayoutAttribute_t { CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET };

struct HostMatmul {
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  cudaDataType_t bias_type = CUDA_R_32F;
};
struct HostMatrix {
  cudaDataType_t type;
  uint64_t rows, columns;
  int64_t pitch;
  int32_t count = 1;
  int64_t distance = 0;

  float get(const void* data, int64_t at) const {
    if (type == CUDA_R_32F) return static_cast<const float*>(data)[at];
    if (type == CUDA_R_16BF) return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[at]);
    return __half2float(static_cast<const __half*>(data)[at]);
  }
  void set(void* data, int64_t at, float value) const {
    if (type == CUDA_R_32F) static_cast<float*>(data)[at] = value;
    else if (type == CUDA_R_16BF) static_cast<__nv_bfloat16*>(data)[at] = __float2bfloat16(value);
    else static_cast<__half*>(data)[at] = __float2half(value);
  }
};
using cublasLtMatmulDesc_t = HostMatmul*;
using cublasLtMatrixLayout_t = HostMatrix*;
using cublasLtMatmulPreference_t = void*;
struct cublasLtMatmulAlgo_t {};
struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  size_t workspaceSize = 0;
};

inline cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t, cudaDataType_t) {
  *made = new HostMatmul;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t kind) {
  delete kind;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t kind, cublasLtMatmulDescAttributes_t name, const void* value, size_t bytes) {
  void* fields[] = {&kind->a, &kind->b, &kind->epilogue, &kind->bias, &kind->bias_type};
  std::memcpy(fields[name], value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType_t type, uint64_t rows, uint64_t columns, int64_t pitch) {
  *made = new HostMatrix{type, rows, columns, pitch};
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t name, const void* value, size_t bytes) {
  void* fields[] = {&layout->count, &layout->distance};
  std::memcpy(fields[name], value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t*) { return CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t) { return CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t, const void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                                     cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int,
                                                     cublasLtMatmulHeuristicResult_t*, int* count) {
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}

// Columns first: the number in row i and column j lies at i + j times the pitch. Each of a batch begins at its distance.
inline cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t kind, const void* alpha, const void* a, cublasLtMatrixLayout_t la, const void* b,
                                     cublasLtMatrixLayout_t lb, const void* beta, const void* c, cublasLtMatrixLayout_t lc, void* d,
                                     cublasLtMatrixLayout_t ld, const cublasLtMatmulAlgo_t*, void*, size_t, void*) {
  float scale = *static_cast<const float*>(alpha), share = *static_cast<const float*>(beta);
  bool ta = kind->a == CUBLAS_OP_T, tb = kind->b == CUBLAS_OP_T;
  auto inner = static_cast<int64_t>(ta ? la->rows : la->columns);
  bool biased = kind->epilogue == CUBLASLT_EPILOGUE_BIAS || kind->epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
  bool cuts = kind->epilogue == CUBLASLT_EPILOGUE_RELU || kind->epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
  HostMatrix bias{kind->bias_type, ld->rows, 1, 0};
  for (int64_t at = 0; at < ld->count; ++at)
    for (int64_t j = 0; j < static_cast<int64_t>(ld->columns); ++j)
      for (int64_t i = 0; i < static_cast<int64_t>(ld->rows); ++i) {
        float sum = 0;
        for (int64_t k = 0; k < inner; ++k)
          sum += la->get(a, at * la->distance + (ta ? k + i * la->pitch : i + k * la->pitch)) *
                 lb->get(b, at * lb->distance + (tb ? j + k * lb->pitch : k + j * lb->pitch));
        int64_t place = at * ld->distance + i + j * ld->pitch;
        sum = scale * sum + (share == 0 ? 0 : share * lc->get(c, place));
        if (biased) sum += bias.get(kind->bias, i);
        ld->set(d, place, cuts && !(sum > 0) ? 0 : sum);
      }
  return CUBLAS_STATUS_SUCCESS;
}

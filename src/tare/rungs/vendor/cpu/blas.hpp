// The OpenBLAS in SciPy's wheel, which every installation of tare has. Its names have a prefix.
#pragma once

#include <cstdint>

extern "C" {
void scipy_cblas_sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float* a, int lda,
                       const float* b, int ldb, float beta, float* c, int ldc);
void scipy_openblas_set_num_threads(int threads);
}

namespace tare::vendor {

// C (m x n) = beta * C + alpha * op(A) op(B), all row-major.
inline void gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b,
                 int64_t ldb, float beta, float* c, int64_t ldc, float alpha = 1) {
  auto trans = [](bool yes) { return yes ? 112 : 111; };
  scipy_cblas_sgemm(101, trans(trans_a), trans(trans_b), static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), alpha,
                    a, static_cast<int>(lda), b, static_cast<int>(ldb), beta, c, static_cast<int>(ldc));
}

}  // namespace tare::vendor

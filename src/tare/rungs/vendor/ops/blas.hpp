// Matrix products by BLAS. The names of the OpenBLAS in SciPy's wheel, which every installation of tare has, begin with a
// prefix; those of any other library do not (TARE_PLAIN_BLAS).
#pragma once

#include <cstdint>

#ifdef TARE_PLAIN_BLAS
#define TARE_BLAS_NAME(name) name
#else
#define TARE_BLAS_NAME(name) scipy_##name
#define TARE_BLAS_THREADS
#endif

extern "C" {
void TARE_BLAS_NAME(cblas_sgemm)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float* a, int lda,
                                 const float* b, int ldb, float beta, float* c, int ldc);
#ifdef TARE_BLAS_THREADS
void TARE_BLAS_NAME(openblas_set_num_threads)(int threads);
#endif
}

namespace tare::ops {

inline void set_blas_threads([[maybe_unused]] int threads) {
#ifdef TARE_BLAS_THREADS
  TARE_BLAS_NAME(openblas_set_num_threads)(threads);
#endif
}

// C (m x n) = beta * C + alpha * op(A) op(B), all row-major.
inline void gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b,
                 int64_t ldb, float beta, float* c, int64_t ldc, float alpha = 1) {
  auto trans = [](bool yes) { return yes ? 112 : 111; };
  TARE_BLAS_NAME(cblas_sgemm)(101, trans(trans_a), trans(trans_b), static_cast<int>(m), static_cast<int>(n), static_cast<int>(k),
                              alpha, a, static_cast<int>(lda), b, static_cast<int>(ldb), beta, c, static_cast<int>(ldc));
}

}  // namespace tare::ops

// Linear layers as matrix products: x is rows x in, w is out x in, y is rows x out.
#pragma once

#include "blas.hpp"

namespace tare::ops {

inline void linear(const float* x, const float* w, float* y, int64_t rows, int64_t in, int64_t out) {
  gemm(false, true, rows, out, in, x, in, w, in, 0, y, out);
}

inline void linear_weight_gradient(const float* x, const float* dy, float* dw, int64_t rows, int64_t in, int64_t out) {
  gemm(true, false, out, in, rows, dy, out, x, in, 0, dw, in);
}

inline void linear_input_gradient(const float* w, const float* dy, float* dx, int64_t rows, int64_t in, int64_t out) {
  gemm(false, false, rows, in, out, dy, out, w, in, 0, dx, in);
}

}  // namespace tare::ops

// Which operators are products of matrices: linear layers, and convolutions that take every pixel by itself.
#pragma once

#include <optional>

#include "matmul.cuh"

namespace tare::vendor {

// Whether the window is one pixel and goes over all of them, and the images lie pixel after pixel.
inline bool takes_pixels(const Op& op, const Value& filter, std::initializer_list<const Value*> images) {
  if (filter.shape[2] != 1 || filter.shape[3] != 1 || op.integer("groups") != 1) return false;
  for (int64_t n : op.integers("stride"))
    if (n != 1) return false;
  for (int64_t n : op.integers("padding"))
    if (n != 0) return false;
  for (const Value* image : images) {
    if (!image) continue;
    const auto &shape = image->shape, &strides = image->strides;
    if (!image->channels_last() || strides[1] != 1 || strides[3] != shape[1] || strides[2] != shape[3] * strides[3] || strides[0] != shape[2] * strides[2])
      return false;
  }
  return true;
}

// The product that an operator is, if it is one. A row is a sample of a linear layer or a pixel: y (rows x out) = x (rows x
// in) times w (out x in) transposed. cuBLAS sees columns first, so everything is transposed.
inline std::optional<MatmulPlan> product_of(const Op& op) {
  bool convolves = op.kind.rfind("conv", 0) == 0;
  bool by_input = op.kind == "linear_input_gradient" || op.kind == "conv_input_gradient";
  bool by_weight = op.kind == "linear_weight_gradient" || op.kind == "conv_weight_gradient";
  if (op.kind != "linear" && op.kind != "conv" && !by_input && !by_weight) return std::nullopt;
  const Value& w = op[by_weight ? "dw" : "w"];
  const Value& x = op[by_input ? "dx" : "x"];
  if (convolves && !takes_pixels(op, w, {&x, op.find("y"), op.find("dy"), op.find("z")})) return std::nullopt;
  int64_t out = w.shape[0], in = w.shape[1], rows = x.size / in;
  if (by_input) return MatmulPlan{{in, rows, out, CUBLAS_OP_N, CUBLAS_OP_N, in, out, in}, w, op["dy"], x};
  if (by_weight) return MatmulPlan{{in, out, rows, CUBLAS_OP_N, CUBLAS_OP_T, in, out, in}, x, op["dy"], w};
  return MatmulPlan{{out, rows, in, CUBLAS_OP_T, CUBLAS_OP_N, in, in, out}, w, x, op["y"], op.find("b"), op.find("z"), op.activation() == "relu"};
}

}  // namespace tare::vendor

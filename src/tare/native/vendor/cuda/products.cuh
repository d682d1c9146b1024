// Linear layers by cuBLASLt, with the bias and ReLU in the product's epilogue.
#pragma once

#include "convolution.cuh"

namespace tare::vendor {

class Products {
 public:
  Products(Device& device, Search& search, bool tf32) : device_(device), search_(search), tf32_(tf32) {}

  // y (rows x out) = x (rows x in) times w (out x in) transposed. cuBLAS sees columns first, so everything is transposed.
  template <class T>
  Binding forward(const Op& op) {
    int64_t out = op["w"].shape[0], in = op["w"].shape[1], rows = op["x"].size / in;
    MatmulShape shape{out, rows, in, CUBLAS_OP_T, CUBLAS_OP_N, in, in, out};
    bool relu = op.activation() == "relu";
    Binding made = product(op, shape, op["w"], op["x"], op["y"], {op.find("b"), nullptr, relu});
    if (op.activation().empty() || relu) return made;
    Call after = epilogue<T>(device_, op, op["y"].as<T>(), false);
    return [=]() -> Call { return [call = made(), after] { call(), after(); }; };
  }

  Binding input_gradient(const Op& op) {
    int64_t out = op["w"].shape[0], in = op["w"].shape[1], rows = op["dx"].size / in;
    return product(op, {in, rows, out, CUBLAS_OP_N, CUBLAS_OP_N, in, out, in}, op["w"], op["dy"], op["dx"]);
  }

  Binding weight_gradient(const Op& op) {
    int64_t out = op["dw"].shape[0], in = op["dw"].shape[1], rows = op["x"].size / in;
    return product(op, {in, out, rows, CUBLAS_OP_N, CUBLAS_OP_T, in, out, in}, op["x"], op["dy"], op["dw"]);
  }

  int64_t workspace = 0;

 private:
  Binding product(const Op& op, const MatmulShape& shape, const Value& a, const Value& b, const Value& d, const MatmulEnd& end = {}) {
    auto made = std::make_shared<Matmul>(device_, shape, a, b, d, tf32_, end);
    std::string question = op.kind + (tf32_ ? ":tf32" : "") + op.activation() + (op.find("b") ? ":b" : "") + ":" + a.dtype + d.dtype;
    for (int64_t n : {shape.m, shape.n, shape.k}) question += "," + std::to_string(n);
    int best = search_.fastest(question, made->size(), [=](int i) { return made->call(i); });
    workspace = std::max(workspace, made->workspace(best));
    return [=] { return made->call(best); };
  }

  Device& device_;
  Search& search_;
  bool tf32_;
};

}  // namespace tare::vendor

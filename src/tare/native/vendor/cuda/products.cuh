// Linear layers by cuBLASLt, with the bias and ReLU in the product's epilogue.
#pragma once

#include "convolution.cuh"

namespace tare::vendor {

class Products {
 public:
  Products(Device& device, Search& search, bool exact, bool tf32) : device_(device), search_(search), tf32_(tf32 && !exact) {}

  // y (rows x out) = x (rows x in) times w (out x in) transposed. cuBLAS sees columns first, so everything is transposed.
  template <class T>
  Binding forward(const Op& op) {
    int64_t out = op["w"].shape[0], in = op["w"].shape[1], rows = op["x"].size / in;
    Shape shape{out, rows, in, CUBLAS_OP_T, CUBLAS_OP_N, in, in, out};
    Binding made = product(op, shape, op["w"], op["x"], op["y"]);
    if (op.activation().empty() || op.activation() == "relu") return made;
    Call after = epilogue<T>(device_, op, op["y"].as<T>(), false);
    return [=]() -> Call { return [call = made(), after] { call(), after(); }; };
  }

  Binding input_gradient(const Op& op) {
    int64_t out = op["w"].shape[0], in = op["w"].shape[1], rows = op["dx"].size / in;
    Shape shape{in, rows, out, CUBLAS_OP_N, CUBLAS_OP_N, in, out, in};
    return product(op, shape, op["w"], op["dy"], op["dx"]);
  }

  Binding weight_gradient(const Op& op) {
    int64_t out = op["dw"].shape[0], in = op["dw"].shape[1], rows = op["x"].size / in;
    Shape shape{in, out, rows, CUBLAS_OP_N, CUBLAS_OP_T, in, out, in};
    return product(op, shape, op["x"], op["dy"], op["dw"]);
  }

  int64_t workspace = 0;

 private:
  static constexpr int most_algorithms = 8;
  static constexpr int64_t most_workspace = 32ll << 20;

  struct Shape {
    int64_t m, n, k;
    cublasOperation_t a, b;
    int64_t lda, ldb, ldd;
  };

  struct Matmul {
    cublasLtMatmulDesc_t kind = nullptr;
    cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
    std::vector<cublasLtMatmulHeuristicResult_t> found;
  };

  static cudaDataType_t type_of(const std::string& dtype) { return dtype == "f32" ? CUDA_R_32F : dtype == "bf16" ? CUDA_R_16BF : CUDA_R_16F; }

  Binding product(const Op& op, const Shape& shape, const Value& a, const Value& b, const Value& d) {
    auto made = std::make_shared<Matmul>();
    auto compute = a.dtype == "f32" && tf32_ ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    check(cublasLtMatmulDescCreate(&made->kind, compute, CUDA_R_32F), "cublasLtMatmulDescCreate");
    set(made->kind, CUBLASLT_MATMUL_DESC_TRANSA, shape.a);
    set(made->kind, CUBLASLT_MATMUL_DESC_TRANSB, shape.b);
    bool ends = op.kind == "linear";
    if (ends) set_epilogue(op, made->kind);
    bool ta = shape.a == CUBLAS_OP_T, tb = shape.b == CUBLAS_OP_T;
    made->a = layout(a, ta ? shape.k : shape.m, ta ? shape.m : shape.k, shape.lda);
    made->b = layout(b, tb ? shape.n : shape.k, tb ? shape.k : shape.n, shape.ldb);
    made->d = layout(d, shape.m, shape.n, shape.ldd);
    find_algorithms(*made);
    auto candidate = [=, &device = device_, &a, &b, &d](int i) -> Call {
      const auto result = made->found.at(i);
      char* room = device.workspace(static_cast<int64_t>(result.workspaceSize));
      return [=, x = a.data, y = b.data, z = d.data, handle = device.cublas, stream = device.stream] {
        float one = 1, none = 0;
        check(cublasLtMatmul(handle, made->kind, &one, x, made->a, y, made->b, &none, z, made->d, z, made->d, &result.algo, room, result.workspaceSize, stream),
              "cublasLtMatmul");
      };
    };
    std::string question = op.kind + (tf32_ ? ":tf32" : "") + op.activation() + (op.find("b") ? ":b" : "") + ":" + a.dtype + d.dtype;
    for (int64_t n : {shape.m, shape.n, shape.k}) question += "," + std::to_string(n);
    int best = search_.fastest(question, static_cast<int>(made->found.size()), candidate);
    workspace = std::max<int64_t>(workspace, made->found[best].workspaceSize);
    return [=] { return candidate(best); };
  }

  template <class V>
  static void set(cublasLtMatmulDesc_t kind, cublasLtMatmulDescAttributes_t name, V value) {
    check(cublasLtMatmulDescSetAttribute(kind, name, &value, sizeof value), "cublasLtMatmulDescSetAttribute");
  }

  static void set_epilogue(const Op& op, cublasLtMatmulDesc_t kind) {
    const Value* bias = op.find("b");
    bool relu = op.activation() == "relu";
    cublasLtEpilogue_t epilogue = relu ? (bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU) : bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    set(kind, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    if (!bias) return;
    set(kind, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(bias->data));
    set(kind, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(bias->dtype));
  }

  static cublasLtMatrixLayout_t layout(const Value& value, int64_t rows, int64_t columns, int64_t pitch) {
    cublasLtMatrixLayout_t made = nullptr;
    check(cublasLtMatrixLayoutCreate(&made, type_of(value.dtype), rows, columns, pitch), "cublasLtMatrixLayoutCreate");
    return made;
  }

  void find_algorithms(Matmul& made) {
    cublasLtMatmulPreference_t preference = nullptr;
    check(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    uint64_t most = most_workspace;
    check(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most), "the workspace of products");
    made.found.resize(most_algorithms);
    int count = 0;
    check(cublasLtMatmulAlgoGetHeuristic(device_.cublas, made.kind, made.a, made.b, made.d, made.d, preference, most_algorithms, made.found.data(), &count),
          "cublasLtMatmulAlgoGetHeuristic");
    made.found.resize(count);
    cublasLtMatmulPreferenceDestroy(preference);
  }

  Device& device_;
  Search& search_;
  bool tf32_;
};

}  // namespace tare::vendor

// Matrix products by cuBLASLt with bias, sum and ReLU in the epilogue. The algorithms are candidates of a search.
#pragma once

#include <optional>

#include "device.cuh"

namespace tare::vendor {

// d (m x n) = a (m x k) times b (k x n), column-major as in cuBLAS.
struct MatmulShape {
  int64_t m, n, k;
  cublasOperation_t a, b;
  int64_t lda, ldb, ldd;
};

// Several products of one shape, and how far apart their operands are.
struct MatmulBatch {
  int64_t count = 1, a = 0, b = 0, d = 0;
};

// A product with its operands, its summands and its result.
struct MatmulPlan {
  MatmulShape shape;
  const Value &a, &b, &d;
  const Value *bias = nullptr, *sum = nullptr;
  bool relu = false;
  MatmulBatch batch = {};
  float alpha = 1;
  // Of the operands' addresses, where it is less than that of a value with memory of its own.
  uint32_t alignment = 0;
};

class Matmul {
 public:
  // Throws where cuBLASLt does not support the product.
  Matmul(Device& device, const MatmulPlan& plan, bool tf32) : device_(device), plan_(plan), parts_(std::make_shared<Parts>()) {
    const MatmulShape& shape = plan.shape;
    auto compute = plan.a.dtype == "f32" && tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    check(cublasLtMatmulDescCreate(&parts_->kind, compute, CUDA_R_32F), "cublasLtMatmulDescCreate");
    set(CUBLASLT_MATMUL_DESC_TRANSA, shape.a);
    set(CUBLASLT_MATMUL_DESC_TRANSB, shape.b);
    set_epilogue();
    bool ta = shape.a == CUBLAS_OP_T, tb = shape.b == CUBLAS_OP_T;
    parts_->a = layout(plan.a, ta ? shape.k : shape.m, ta ? shape.m : shape.k, shape.lda, plan.batch.a);
    parts_->b = layout(plan.b, tb ? shape.n : shape.k, tb ? shape.k : shape.n, shape.ldb, plan.batch.b);
    parts_->d = layout(plan.d, shape.m, shape.n, shape.ldd, plan.batch.d);
    find_algorithms();
  }

  int size() const { return static_cast<int>(algorithms_.size()); }
  int64_t workspace(int i) const { return static_cast<int64_t>(algorithms_.at(i).workspaceSize); }

  // Reads the operands' addresses, which must be final.
  Call call(int i) const {
    const auto result = algorithms_.at(i);
    char* room = device_.workspace(workspace(i));
    const void* plus = plan_.sum ? plan_.sum->data : plan_.d.data;
    return [=, parts = parts_, a = plan_.a.data, b = plan_.b.data, d = plan_.d.data, sums = plan_.sum != nullptr, alpha = plan_.alpha, handle = device_.cublas,
            stream = device_.stream] {
      float beta = sums ? 1 : 0;
      check(cublasLtMatmul(handle, parts->kind, &alpha, a, parts->a, b, parts->b, &beta, plus, parts->d, d, parts->d, &result.algo, room, result.workspaceSize, stream),
            "cublasLtMatmul");
    };
  }

 private:
  static constexpr int max_algorithms = 8;
  static constexpr int64_t max_workspace = 32ll << 20;

  struct Parts {
    cublasLtMatmulDesc_t kind = nullptr;
    cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
    Parts() = default;
    Parts(const Parts&) = delete;
    ~Parts() {
      for (auto layout : {a, b, d})
        if (layout) cublasLtMatrixLayoutDestroy(layout);
      if (kind) cublasLtMatmulDescDestroy(kind);
    }
  };

  static cudaDataType_t type_of(const std::string& dtype) { return dtype == "f32" ? CUDA_R_32F : dtype == "bf16" ? CUDA_R_16BF : CUDA_R_16F; }

  template <class V>
  void set(cublasLtMatmulDescAttributes_t name, V value) {
    check(cublasLtMatmulDescSetAttribute(parts_->kind, name, &value, sizeof value), "cublasLtMatmulDescSetAttribute");
  }

  void set_epilogue() {
    const Value* bias = plan_.bias;
    cublasLtEpilogue_t epilogue = plan_.relu ? (bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU)
                                             : (bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    if (!bias) return;
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(bias->data));
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(bias->dtype));
  }

  cublasLtMatrixLayout_t layout(const Value& value, int64_t rows, int64_t columns, int64_t pitch, int64_t distance) const {
    cublasLtMatrixLayout_t result = nullptr;
    check(cublasLtMatrixLayoutCreate(&result, type_of(value.dtype), rows, columns, pitch), "cublasLtMatrixLayoutCreate");
    auto count = static_cast<int32_t>(plan_.batch.count);
    if (count == 1) return result;
    check(cublasLtMatrixLayoutSetAttribute(result, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count), "the number of products");
    check(cublasLtMatrixLayoutSetAttribute(result, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &distance, sizeof distance), "the distance of products");
    return result;
  }

  void find_algorithms() {
    cublasLtMatmulPreference_t preference = nullptr;
    check(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    uint64_t max_bytes = max_workspace;
    check(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &max_bytes, sizeof max_bytes), "the workspace of products");
    if (plan_.alignment)
      for (auto name : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
        check(cublasLtMatmulPreferenceSetAttribute(preference, name, &plan_.alignment, sizeof plan_.alignment), "the alignment of products");
    algorithms_.resize(max_algorithms);
    int count = 0;
    auto status = cublasLtMatmulAlgoGetHeuristic(device_.cublas, parts_->kind, parts_->a, parts_->b, parts_->d, parts_->d, preference, max_algorithms,
                                                 algorithms_.data(), &count);
    cublasLtMatmulPreferenceDestroy(preference);
    check(status, "cublasLtMatmulAlgoGetHeuristic");
    algorithms_.resize(count);
  }

  Device& device_;
  MatmulPlan plan_;
  std::shared_ptr<Parts> parts_;
  std::vector<cublasLtMatmulHeuristicResult_t> algorithms_;
};

// Whether a convolution has a window of one pixel with stride 1, on dense channels-last images.
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

// The product that computes an op, if one does. A row is a sample of a linear layer or a pixel: y (rows x out) = x (rows x
// in) times w (out x in) transposed. cuBLAS is column-major, so everything is transposed.
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

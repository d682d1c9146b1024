// Products of matrices at any strides, over leading dimensions that both factors share.
#pragma once

#include <cublas_v2.h>

#include "matmul.cuh"
#include "search.cuh"

namespace tare::vendor {

// y = alpha a b, row by row. The library counts columns first, so that it computes the transposes: b's times a's.
struct BatchedProduct {
  explicit BatchedProduct(const Op& op) : a(op["a"]), b(op["b"]), y(op["y"]) {
    sizes = op.integers("batch");
    auto strides_a = op.integers("a_strides"), strides_b = op.integers("b_strides");
    int64_t m = op.integer("m"), n = op.integer("n"), k = op.integer("k");
    auto [a_turned, a_pitch] = layout(strides_a, m, k);
    auto [b_turned, b_pitch] = layout(strides_b, k, n);
    shape = {n, m, k, b_turned ? CUBLAS_OP_T : CUBLAS_OP_N, a_turned ? CUBLAS_OP_T : CUBLAS_OP_N, b_pitch, a_pitch, n};
    alpha = static_cast<float>(op.number("alpha"));
    for (size_t d = 0; d < sizes.size(); ++d) steps.push_back({strides_a[d], strides_b[d]});
    join();
    a.data += op.integer("a_offset") * a.element();
    b.data += op.integer("b_offset") * b.element();
  }

  int64_t count() const {
    int64_t result = 1;
    for (int64_t size : sizes) result *= size;
    return result;
  }

  // Where product i begins in both factors.
  std::pair<int64_t, int64_t> begin(int64_t i) const {
    std::pair<int64_t, int64_t> result{0, 0};
    for (size_t d = sizes.size(); d-- > 0; i /= sizes[d]) {
      result.first += i % sizes[d] * steps[d].first;
      result.second += i % sizes[d] * steps[d].second;
    }
    return result;
  }

  Value a, b, y;
  MatmulShape shape;
  float alpha;
  // The leading dimensions, and the strides of both factors over them.
  std::vector<int64_t> sizes;
  std::vector<std::pair<int64_t, int64_t>> steps;

 private:
  // Whether a matrix lies by columns, and the distance between its rows or columns.
  std::pair<bool, int64_t> layout(const std::vector<int64_t>& strides, int64_t rows, int64_t columns) const {
    int64_t row = strides[sizes.size()], column = strides[sizes.size() + 1];
    bool by_rows = (column == 1 || columns == 1) && (row >= columns || rows == 1);
    return {!by_rows, std::max(by_rows ? row : column, by_rows ? columns : rows)};
  }

  // Neighbouring dimensions that one stride walks through are one, and those of one element are none.
  void join() {
    std::vector<int64_t> joined;
    std::vector<std::pair<int64_t, int64_t>> joined_steps;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (sizes[d] == 1) continue;
      bool continues = !joined.empty() && joined_steps.back().first == steps[d].first * sizes[d] && joined_steps.back().second == steps[d].second * sizes[d];
      if (continues) joined.back() *= sizes[d], joined_steps.back() = steps[d];
      else joined.push_back(sizes[d]), joined_steps.push_back(steps[d]);
    }
    sizes = joined;
    steps = joined_steps;
  }
};

// Products that one distance separates, and the views that they read and write.
struct ProductPart {
  ProductPart(const BatchedProduct& whole, int64_t first, int64_t inner) : a(whole.a), b(whole.b), y(whole.y) {
    auto [from_a, from_b] = whole.begin(first);
    a.data += from_a * a.element();
    b.data += from_b * b.element();
    y.data += first * whole.shape.m * whole.shape.n * y.element();
    distances = inner > 1 ? MatmulBatch{inner, whole.steps.back().second, whole.steps.back().first, whole.shape.m * whole.shape.n} : MatmulBatch{};
  }

  Value a, b, y;
  MatmulBatch distances;
  std::unique_ptr<Matmul> product;
};

class Products {
 public:
  Products(Device& device, Search& search, bool tf32) : device_(device), search_(search), tf32_(tf32) {}

  Binding bind(const Op& op) {
    auto product = std::make_shared<BatchedProduct>(op);
    std::string key = "matmul" + std::string(tf32_ ? ":tf32:" : ":") + product->a.dtype + product->y.dtype;
    for (int64_t n : {product->shape.m, product->shape.n, product->shape.k, product->shape.lda, product->shape.ldb}) key += "," + std::to_string(n);
    key += product->shape.a == CUBLAS_OP_T ? ":t" : ":n";
    key += product->shape.b == CUBLAS_OP_T ? "t" : "n";
    for (size_t d = 0; d < product->sizes.size(); ++d)
      for (int64_t n : {product->sizes[d], product->steps[d].first, product->steps[d].second}) key += "," + std::to_string(n);
    key += ":" + std::to_string(alignment(*product));
    // The last dimension is one call; those before it are a call each, or all are one by their addresses.
    std::vector<std::shared_ptr<ProductPart>> parts = parts_of(*product);
    int algorithms = parts.empty() ? 0 : parts.front()->product->size();
    Call by_address = product->sizes.size() > 1 || parts.empty() ? addressed(product) : Call();
    auto candidate = [=](int i) -> Call {
      if (i == algorithms) return by_address;
      std::vector<Call> calls;
      for (const auto& part : parts) calls.push_back(part->product->call(i));
      return [calls] {
        for (const auto& call : calls) call();
      };
    };
    int best = search_.fastest(key, algorithms + (by_address ? 1 : 0), candidate);
    if (best < algorithms) workspace = std::max(workspace, parts.front()->product->workspace(best));
    return [=] { return candidate(best); };
  }

  int64_t workspace = 0;

 private:
  // More calls than this are never the fastest.
  static constexpr int64_t most_parts = 16;
  static constexpr int64_t own_workspace = 32ll << 20;

  static cudaDataType_t type_of(const std::string& dtype) { return dtype == "f32" ? CUDA_R_32F : dtype == "bf16" ? CUDA_R_16BF : CUDA_R_16F; }

  // What divides the addresses of all matrices, up to the 16 bytes that matter.
  static uint32_t alignment(const BatchedProduct& product) {
    uint64_t bits = reinterpret_cast<uintptr_t>(product.a.data) | reinterpret_cast<uintptr_t>(product.b.data) | 16;
    for (const auto& [a, b] : product.steps) bits |= static_cast<uint64_t>(a * product.a.element()) | static_cast<uint64_t>(b * product.b.element());
    bits |= static_cast<uint64_t>(product.shape.m * product.shape.n * product.y.element());
    return static_cast<uint32_t>(bits & (~bits + 1));
  }

  std::vector<std::shared_ptr<ProductPart>> parts_of(const BatchedProduct& whole) {
    int64_t inner = whole.sizes.empty() ? 1 : whole.sizes.back(), outer = whole.count() / inner;
    std::vector<std::shared_ptr<ProductPart>> result;
    for (int64_t i = 0; outer <= most_parts && i < outer; ++i) {
      auto part = std::make_shared<ProductPart>(whole, i * inner, inner);
      MatmulPlan plan{whole.shape, part->b, part->a, part->y, nullptr, nullptr, false, part->distances, whole.alpha, alignment(whole)};
      try {
        part->product = std::make_unique<Matmul>(device_, plan, tf32_);
      } catch (const std::runtime_error&) {
        // cuBLASLt does not support it: the addresses remain.
        return {};
      }
      result.push_back(std::move(part));
    }
    return result;
  }

  // All products in one call, each by its addresses, which do not change.
  Call addressed(std::shared_ptr<BatchedProduct> product) {
    if (!handle_) {
      check(cublasCreate(&handle_), "cublasCreate");
      check(cublasSetStream(handle_, device_.stream), "cublasSetStream");
      check(cublasSetWorkspace(handle_, device_.allocate(own_workspace), own_workspace), "cublasSetWorkspace");
    }
    int64_t count = product->count(), size = product->shape.m * product->shape.n;
    std::vector<char*> addresses(3 * count);
    for (int64_t i = 0; i < count; ++i) {
      auto [a, b] = product->begin(i);
      addresses[i] = product->b.data + b * product->b.element();
      addresses[count + i] = product->a.data + a * product->a.element();
      addresses[2 * count + i] = product->y.data + i * size * product->y.element();
    }
    auto** given = reinterpret_cast<void**>(device_.allocate(static_cast<int64_t>(addresses.size() * sizeof(char*))));
    device_.copy(given, addresses.data(), static_cast<int64_t>(addresses.size() * sizeof(char*)), cudaMemcpyHostToDevice);
    auto compute = product->a.dtype == "f32" && tf32_ ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    return [=, handle = handle_] {
      const MatmulShape& shape = product->shape;
      float nothing = 0;
      check(cublasGemmBatchedEx(handle, shape.a, shape.b, static_cast<int>(shape.m), static_cast<int>(shape.n), static_cast<int>(shape.k), &product->alpha,
                                given, type_of(product->b.dtype), static_cast<int>(shape.lda), given + count, type_of(product->a.dtype),
                                static_cast<int>(shape.ldb), &nothing, given + 2 * count, type_of(product->y.dtype), static_cast<int>(shape.ldd),
                                static_cast<int>(count), compute, CUBLAS_GEMM_DEFAULT),
            "cublasGemmBatchedEx");
    };
  }

  Device& device_;
  Search& search_;
  bool tf32_;
  cublasHandle_t handle_ = nullptr;
};

}  // namespace tare::vendor

// Linear layers by cuBLASLt, with bias and ReLU in the epilogue of the product.
#pragma once

#include "normalization.cuh"
#include "matmul.cuh"
#include "search.cuh"

namespace tare::vendor {

class Linears {
 public:
  Linears(Device& device, Search& search, bool tf32) : device_(device), search_(search), tf32_(tf32) {}

  template <class T>
  Binding bind(const Op& op) {
    Binding result = product(op);
    if (op.kind != "linear" || op.activation().empty() || op.activation() == "relu") return result;
    Call after = epilogue<T>(device_, op, op["y"].as<T>(), false);
    return [=]() -> Call { return [call = result(), after] { call(), after(); }; };
  }

  int64_t workspace = 0;

 private:
  Binding product(const Op& op) {
    MatmulPlan plan = *product_of(op);
    auto result = std::make_shared<Matmul>(device_, plan, tf32_);
    std::string ending = op.kind == "linear" ? op.activation() : "";
    std::string key = op.kind + (tf32_ ? ":tf32" : "") + ending + (plan.bias ? ":b" : "") + ":" + plan.a.dtype + plan.d.dtype;
    for (int64_t n : {plan.shape.m, plan.shape.n, plan.shape.k}) key += "," + std::to_string(n);
    int best = search_.fastest(key, result->size(), [=](int i) { return result->call(i); });
    workspace = std::max(workspace, result->workspace(best));
    return [=] { return result->call(best); };
  }

  Device& device_;
  Search& search_;
  bool tf32_;
};

}  // namespace tare::vendor

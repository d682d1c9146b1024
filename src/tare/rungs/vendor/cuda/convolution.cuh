// Convolutions as cuDNN graphs. Bias, sum and activation are fused where an engine supports it and is faster; otherwise our
// own kernel follows. A convolution of single pixels is also a matrix product, for which cuBLASLt may be faster.
#pragma once

#include "cudnn_graph.cuh"
#include "normalization.cuh"
#include "matmul.cuh"
#include "search.cuh"

namespace tare::vendor {

inline std::string convolution_key(const Op& op, bool exact) {
  std::string result = search_key(op, exact ? "exact" : "");
  for (const char* name : {"stride", "padding", "dilation"})
    for (int64_t n : op.integers(name)) result += "," + std::to_string(n);
  return result + ",g" + std::to_string(op.integer("groups"));
}

inline graph::Descriptor geometry(const Op& op) {
  graph::Descriptor result(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  result.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION)
      .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, int64_t{2})
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, op.integers("padding"))
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, op.integers("padding"))
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, op.integers("dilation"))
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, op.integers("stride"));
  return result.finish();
}

class Convolutions {
 public:
  Convolutions(Device& device, Search& search, bool exact) : device_(device), search_(search), exact_(exact) {}

  template <class T>
  Binding forward(const Op& op) {
    bool ends = op.find("b") || op.find("z") || !op.activation().empty();
    // The activations that cuDNN's engines support.
    bool fuses = ends && (op.activation().empty() || op.activation() == "relu" || op.activation() == "relu6");
    auto plain = std::make_shared<Choice>(*this, forward_operations(op, false), pointers(op, {"x", "w", "y"}));
    auto fused = fuses ? std::make_shared<Choice>(*this, forward_operations(op, true), pointers(op, {"x", "w", "y", "b", "z"})) : nullptr;
    Call after = ends ? epilogue<T>(device_, op, op["y"].as<T>()) : Call();
    bool in_epilogue = op.activation().empty() || op.activation() == "relu";
    auto product = in_epilogue ? matmul(op) : nullptr;
    int first = fused ? fused->size() : 0, second = first + plain->size();
    auto candidate = [=](int i) -> Call {
      if (i < first) return fused->call(i);
      if (i >= second) return product->call(i - second);
      Call call = plain->call(i - first);
      if (!after) return call;
      return [call, after] { call(), after(); };
    };
    int best = search_.fastest(convolution_key(op, exact_), second + (product ? product->size() : 0), candidate);
    if (best >= second) workspace = std::max(workspace, product->workspace(best - second));
    else (best < first ? *fused : *plain).keep(best < first ? best : best - first);
    // The candidate holds the graph's descriptors alive.
    return [=] { return candidate(best); };
  }

  Binding input_gradient(const Op& op) { return backward(op, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, {"w", "dy", "dx"}); }
  Binding weight_gradient(const Op& op) { return backward(op, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, {"x", "dy", "dw"}); }

  int64_t workspace = 0;

 private:
  // The engines of one operation graph, and the plans built so far.
  class Choice {
   public:
    Choice(Convolutions& owner, const std::vector<graph::Descriptor>& operations, graph::Pointers pointers) : owner_(owner), pointers_(std::move(pointers)) {
      try {
        graph_ = std::make_unique<graph::Graph>(owner.device_, operations, owner.exact_);
      } catch (const std::exception&) {
        // cuDNN does not support the graph: it has no engines.
      }
    }

    int size() const { return graph_ ? graph_->size() : 0; }

    Call call(int index) {
      auto entry = plans_.find(index);
      if (entry == plans_.end()) entry = plans_.emplace(index, graph_->plan(index)).first;
      if (entry->second.workspace > max_workspace) return {};
      return graph::bind(owner_.device_, entry->second, pointers_, owner_.device_.workspace(entry->second.workspace));
    }

    // Drops all plans but this one.
    void keep(int index) {
      call(index);
      owner_.workspace = std::max(owner_.workspace, plans_.at(index).workspace);
      graph::Plan kept = plans_.at(index);
      plans_.clear();
      plans_.emplace(index, kept);
    }

   private:
    static constexpr int64_t max_workspace = 1ll << 30;

    Convolutions& owner_;
    graph::Pointers pointers_;
    std::unique_ptr<graph::Graph> graph_;
    std::map<int, graph::Plan> plans_;
  };

  graph::Pointers pointers(const Op& op, std::initializer_list<const char*> roles) const {
    graph::Pointers result;
    for (const char* role : roles)
      if (Value* value = op.find(role)) result.emplace_back(role_id(role), value->data);
    return result;
  }

  static int64_t role_id(const std::string& role) {
    int64_t id = 0;
    for (char c : role) id = id * 256 + c;
    return id;
  }

  static graph::Descriptor tensor(const Op& op, const char* role) {
    const Value& value = op[role];
    return graph::tensor(role_id(role), value.shape, value.strides, graph::type_of(value.dtype), false);
  }

  static std::vector<graph::Descriptor> forward_operations(const Op& op, bool fused) {
    const Value& y = op["y"];
    auto passing = [&](int64_t id) { return graph::tensor(id, y.shape, y.strides, CUDNN_DATA_FLOAT, true); };
    bool b = fused && op.find("b"), z = fused && op.find("z"), activates = fused && !op.activation().empty();
    std::vector<graph::Descriptor> operations;
    auto result = [&](bool last, int64_t id) { return last ? tensor(op, "y") : passing(id); };
    graph::Descriptor now = result(!b && !z && !activates, 1);
    graph::Descriptor conv(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    conv.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, geometry(op))
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, tensor(op, "x"))
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, tensor(op, "w"))
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, now)
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1.0f)
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 0.0f);
    operations.push_back(conv.finish());
    if (z) {
      graph::Descriptor next = result(!b && !activates, 2), skip = tensor(op, "z");
      operations.push_back(graph::pointwise(CUDNN_POINTWISE_ADD, now, &skip, next));
      now = next;
    }
    if (b) {
      int64_t k = y.shape[1];
      graph::Descriptor next = result(!activates, 3);
      graph::Descriptor bias = graph::tensor(role_id("b"), {1, k, 1, 1}, {k, 1, k, k}, graph::type_of(op["b"].dtype), false);
      operations.push_back(graph::pointwise(CUDNN_POINTWISE_ADD, now, &bias, next));
      now = next;
    }
    if (activates) operations.push_back(graph::pointwise(CUDNN_POINTWISE_RELU_FWD, now, nullptr, tensor(op, "y"), op.activation() == "relu6" ? 6 : 0));
    return operations;
  }

  // Null where the op is not a product, or where cuBLASLt does not support its types.
  std::shared_ptr<Matmul> matmul(const Op& op) {
    auto plan = product_of(op);
    if (!plan) return nullptr;
    try {
      return std::make_shared<Matmul>(device_, *plan, !exact_);
    } catch (const std::exception&) {
      return nullptr;
    }
  }

  Binding backward(const Op& op, cudnnBackendDescriptorType_t kind, std::initializer_list<const char*> roles) {
    bool data = kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
    graph::Descriptor result(kind);
    if (data)
      result.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, geometry(op))
          .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, tensor(op, "w"))
          .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, tensor(op, "dy"))
          .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, tensor(op, "dx"))
          .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_TYPE_FLOAT, 1.0f)
          .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, CUDNN_TYPE_FLOAT, 0.0f);
    else
      result.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, geometry(op))
          .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, tensor(op, "x"))
          .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, tensor(op, "dy"))
          .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, tensor(op, "dw"))
          .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_TYPE_FLOAT, 1.0f)
          .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, CUDNN_TYPE_FLOAT, 0.0f);
    result.finish();
    auto choice = std::make_shared<Choice>(*this, std::vector<graph::Descriptor>{result}, pointers(op, roles));
    auto product = matmul(op);
    int engines = choice->size();
    auto candidate = [=](int i) { return i < engines ? choice->call(i) : product->call(i - engines); };
    int best = search_.fastest(convolution_key(op, exact_), engines + (product ? product->size() : 0), candidate);
    if (best < engines) choice->keep(best);
    else workspace = std::max(workspace, product->workspace(best - engines));
    return [=] { return candidate(best); };
  }

  Device& device_;
  Search& search_;
  bool exact_;
};

}  // namespace tare::vendor

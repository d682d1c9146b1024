// The part of cuDNN's graph API that a step needs: tensors, operations, engines, execution plans.
#pragma once

#include "device.cuh"

namespace tare::vendor::graph {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t result = nullptr;
    check(cudnnBackendCreateDescriptor(type, &result), "cudnnBackendCreateDescriptor");
    raw_ = std::shared_ptr<void>(result, [](void* d) { cudnnBackendDestroyDescriptor(d); });
  }

  cudnnBackendDescriptor_t raw() const { return raw_.get(); }

  template <class V>
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const std::vector<V>& values) {
    check(cudnnBackendSetAttribute(raw(), name, type, static_cast<int64_t>(values.size()), values.data()), "cudnnBackendSetAttribute");
    return *this;
  }
  template <class V>
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, V value) {
    check(cudnnBackendSetAttribute(raw(), name, type, 1, &value), "cudnnBackendSetAttribute");
    return *this;
  }
  Descriptor& set(cudnnBackendAttributeName_t name, const Descriptor& other) {
    cudnnBackendDescriptor_t value = other.raw();
    kept_.push_back(other.raw_);
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, value);
  }
  Descriptor& finish() {
    check(cudnnBackendFinalize(raw()), "cudnnBackendFinalize");
    return *this;
  }

 private:
  std::shared_ptr<void> raw_;
  std::vector<std::shared_ptr<void>> kept_;
};

inline cudnnDataType_t type_of(const std::string& dtype) {
  return dtype == "f32" ? CUDNN_DATA_FLOAT : dtype == "bf16" ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
}

inline Descriptor tensor(int64_t id, const std::vector<int64_t>& shape, const std::vector<int64_t>& strides, cudnnDataType_t type, bool passing) {
  Descriptor result(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  result.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type)
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, shape)
      .set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides)
      .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id)
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, int64_t{16})
      .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, passing);
  return result.finish();
}

inline Descriptor pointwise(cudnnPointwiseMode_t mode, const Descriptor& x, const Descriptor* b, const Descriptor& y, double upper_bound = 0) {
  Descriptor kind(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  kind.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode).set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  if (upper_bound > 0) kind.set(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, CUDNN_TYPE_DOUBLE, upper_bound);
  kind.finish();
  Descriptor result(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  result.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind).set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  if (b) result.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
  result.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  return result.finish();
}

// One way to execute an operation graph.
struct Plan {
  Descriptor plan;
  int64_t workspace = 0;
};

class Graph {
 public:
  Graph(Device& device, const std::vector<Descriptor>& operations, bool exact) : device_(device), operations_(operations), exact_(exact) {
    graph_ = Descriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    std::vector<cudnnBackendDescriptor_t> raw;
    for (const auto& operation : operations_) raw.push_back(operation.raw());
    graph_.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, device.cudnn).set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, raw);
    graph_.finish();
    for (auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) add_engines(mode);
  }

  int size() const { return static_cast<int>(engines_.size()); }

  // Throws where the engine does not support the graph on this device.
  Plan plan(int index) const {
    Plan result{Descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)};
    result.plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, device_.cudnn)
        .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engines_.at(index));
    result.plan.finish();
    int64_t count = 0;
    check(cudnnBackendGetAttribute(result.plan.raw(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &result.workspace),
          "the workspace of a plan");
    return result;
  }

 private:
  // In exact mode many engines are requested, because those with reduced precision come first and are skipped.
  static constexpr int64_t max_engines = 10, max_asked = 100;

  void add_engines(cudnnBackendHeurMode_t mode) {
    Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph_).set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
    if (cudnnBackendFinalize(heuristic.raw()) != CUDNN_STATUS_SUCCESS) return;
    std::vector<Descriptor> configs;
    std::vector<cudnnBackendDescriptor_t> raw;
    int64_t asked = exact_ ? max_asked : max_engines;
    for (int64_t i = 0; i < asked; ++i) {
      configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
      raw.push_back(configs.back().raw());
    }
    int64_t count = 0;
    if (cudnnBackendGetAttribute(heuristic.raw(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, asked, &count, raw.data()) !=
        CUDNN_STATUS_SUCCESS)
      return;
    int64_t kept = 0;
    for (int64_t i = 0; i < std::min(count, asked) && kept < max_engines; ++i)
      if (!exact_ || !rounds(configs[i])) engines_.push_back(configs[i]), ++kept;
  }

  // Whether an engine may compute float32 with reduced precision.
  static bool rounds(const Descriptor& config) {
    Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnnBackendDescriptor_t raw = engine.raw();
    int64_t count = 0;
    check(cudnnBackendGetAttribute(config.raw(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &raw), "the engine of a configuration");
    std::vector<cudnnBackendNumericalNote_t> notes(CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
    check(cudnnBackendGetAttribute(raw, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes.data()),
          "the notes of an engine");
    for (int64_t i = 0; i < count; ++i)
      if (notes[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE || notes[i] == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS ||
          notes[i] == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)
        return true;
    return false;
  }

  Device& device_;
  std::vector<Descriptor> operations_, engines_;
  Descriptor graph_;
  bool exact_;
};

using Pointers = std::vector<std::pair<int64_t, void*>>;

inline Call bind(Device& device, const Plan& plan, const Pointers& pointers, char* workspace) {
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  std::vector<int64_t> ids;
  std::vector<void*> data;
  for (const auto& [id, pointer] : pointers) ids.push_back(id), data.push_back(pointer);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, ids)
      .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, data)
      .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, static_cast<void*>(workspace));
  pack.finish();
  return [plan, pack, handle = device.cudnn] { check(cudnnBackendExecute(handle, plan.plan.raw(), pack.raw()), "cudnnBackendExecute"); };
}

}  // namespace tare::vendor::graph

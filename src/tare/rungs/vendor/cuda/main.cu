// The vendor rung on an NVIDIA GPU: cuDNN for convolutions and LSTMs, cuBLASLt for matrix products, own kernels for the
// rest. For `vendor:graph` the whole step is captured once and launched as a CUDA graph.
#include "../../native/worker/worker.hpp"
#include "convolution.cuh"
#include "generated.cuh"
#include "kernels.cuh"
#include "linear.cuh"
#include "lstm.cuh"
#include "products.cuh"

TARE_KERNELS(extern, float)
TARE_KERNELS(extern, __nv_bfloat16)
TARE_KERNELS(extern, __half)

namespace tare::vendor {

class Cuda : public Backend {
 public:
  Cuda(int index, const std::string& cache, const std::string& stage, const std::string& precision, bool captured)
      : device_(index, cache), search_(device_), stage_(stage), exact_(precision == "fp32"), tf32_(precision == "tf32"), captured_(captured) {
    check(cudaEventCreate(&start_), "cudaEventCreate");
    check(cudaEventCreate(&end_), "cudaEventCreate");
    device_.choose = [this](const auto& key, int count, const auto& candidate) { return search_.fastest(key, count, candidate); };
  }

  char* allocate(int64_t bytes) override { return device_.allocate(bytes); }

  char* allocate_host(int64_t bytes, bool pinned) override {
    void* result = nullptr;
    if (pinned) check(cudaMallocHost(&result, bytes), "cudaMallocHost");
    else result = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    return static_cast<char*>(result);
  }

  void upload(char* to, const char* from, int64_t bytes) override { device_.copy(to, from, bytes, cudaMemcpyHostToDevice); }
  void download(char* to, const char* from, int64_t bytes) override { device_.copy(to, from, bytes, cudaMemcpyDeviceToHost); }

  void set(char* to, int byte, int64_t bytes) override {
    check(cudaMemsetAsync(to, byte, bytes, device_.stream), "cudaMemsetAsync");
  }

  void copy(char* to, const char* from, int64_t bytes) override {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, device_.stream), "cudaMemcpyAsync");
  }

  Call feed(char* to, const char* from, int64_t bytes) override {
    return [=, stream = device_.stream] { check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync"); };
  }

  std::vector<Call> compile(const ExecutionPlan& plan, std::vector<std::string>& names) override {
    convolutions_ = std::make_unique<Convolutions>(device_, search_, exact_);
    linears_ = std::make_unique<Linears>(device_, search_, tf32_);
    products_ = std::make_unique<Products>(device_, search_, tf32_);
    std::vector<Binding> bindings;
    for (const auto& op : plan.ops) {
      size_t before = bindings.size();
      // Under autocast, the steps beside generated kernels have types of their own.
      std::string dtype = op.attributes["dtype"].as_text(plan.dtype);
      if (dtype == "f32") add<float>(plan, op, bindings);
      else if (dtype == "bf16") add<__nv_bfloat16>(plan, op, bindings);
      else add<__half>(plan, op, bindings);
      names.resize(names.size() + bindings.size() - before, describe(op));
    }
    device_.settle(std::max({convolutions_->workspace, linears_->workspace, products_->workspace}));
    std::vector<Call> calls;
    for (const auto& binding : bindings) calls.push_back(binding());
    search_.save();
    return calls;
  }

  Call finish(std::vector<Call> calls) override {
    if (!captured_) return Backend::finish(std::move(calls));
    cudaGraphExec_t ready = capture(calls);
    // The calls own the memory that the graph points to.
    return [ready, stream = device_.stream, calls = std::move(calls)] { check(cudaGraphLaunch(ready, stream), "cudaGraphLaunch"); };
  }

  std::optional<double> device_seconds(const std::vector<Call>& calls, int64_t repeats) override {
    cudaGraphExec_t ready = capture(calls);
    check(cudaGraphLaunch(ready, device_.stream), "cudaGraphLaunch");
    synchronize();
    mark_start();
    for (int64_t i = 0; i < repeats; ++i) check(cudaGraphLaunch(ready, device_.stream), "cudaGraphLaunch");
    mark_end();
    synchronize();
    return *device_ns() / 1e9 / repeats;
  }

  void synchronize() override { check(cudaStreamSynchronize(device_.stream), "cudaStreamSynchronize"); }
  bool drain() override {
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    return true;
  }
  bool overlaps() const override { return true; }
  void mark_start() override { check(cudaEventRecord(start_, device_.stream), "cudaEventRecord"); }
  void mark_end() override { check(cudaEventRecord(end_, device_.stream), "cudaEventRecord"); }
  std::optional<int64_t> device_ns() override {
    float ms = 0;
    check(cudaEventElapsedTime(&ms, start_, end_), "cudaEventElapsedTime");
    return static_cast<int64_t>(ms * 1e6);
  }
  // Memory is allocated once and kept, so allocated and reserved memory are the same.
  std::optional<DeviceMemory> memory() override { return DeviceMemory{device_.peak, device_.peak}; }

 private:
  cudaGraphExec_t capture(const std::vector<Call>& calls) {
    // Run once, because kernels must not be loaded lazily during a capture.
    for (const auto& call : calls) call();
    synchronize();
    cudaGraph_t graph = nullptr;
    check(cudaStreamBeginCapture(device_.stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    for (const auto& call : calls) call();
    check(cudaStreamEndCapture(device_.stream, &graph), "cudaStreamEndCapture");
    cudaGraphExec_t ready = nullptr;
    check(cudaGraphInstantiate(&ready, graph, 0), "cudaGraphInstantiate");
    return ready;
  }

  template <class T>
  void add(const ExecutionPlan& plan, const Op& op, std::vector<Binding>& bindings) {
    if (op.kind == "conv") bindings.push_back(convolutions_->forward<T>(op));
    else if (op.kind == "conv_input_gradient") bindings.push_back(convolutions_->input_gradient(op));
    else if (op.kind == "conv_weight_gradient") bindings.push_back(convolutions_->weight_gradient(op));
    else if (op.kind == "matmul") bindings.push_back(products_->bind(op));
    else if (op.kind.rfind("linear", 0) == 0) bindings.push_back(linears_->bind<T>(op));
    else
      for (auto& call : plain<T>(plan, op)) bindings.push_back([call = std::move(call)] { return call; });
  }

  template <class T>
  std::vector<Call> plain(const ExecutionPlan& plan, const Op& op) {
    if (op.kind == "fused") {
      if (!library_) library_ = std::make_unique<KernelLibrary>(stage_ + "/kernels.fatbin");
      return {fused(device_, *library_, op)};
    }
    if (op.kind == "lstm") return {lstm(plan, op).forward()};
    if (op.kind == "lstm_backward") return {lstms_.at(op.integer("slot"))->backward()};
    std::vector<Call> calls = kernel_calls<T>(device_, partials_, op);
    if (calls.empty()) throw Failure("unsupported", "on a GPU the vendor rung has no " + op.kind);
    return calls;
  }

  Lstm& lstm(const ExecutionPlan& plan, const Op& op) {
    const Op* backward = nullptr;
    for (const auto& other : plan.ops)
      if (other.kind == "lstm_backward" && other.integer("slot") == op.integer("slot")) backward = &other;
    auto& result = lstms_[op.integer("slot")] = std::make_unique<Lstm>(device_, search_, op, backward, tf32_);
    return *result;
  }

  Device device_;
  Search search_;
  Partials partials_;
  std::string stage_;
  std::unique_ptr<KernelLibrary> library_;
  bool exact_, tf32_, captured_;
  std::unique_ptr<Convolutions> convolutions_;
  std::unique_ptr<Linears> linears_;
  std::unique_ptr<Products> products_;
  std::map<int64_t, std::unique_ptr<Lstm>> lstms_;
  cudaEvent_t start_, end_;
};

}  // namespace tare::vendor

namespace tare {

std::unique_ptr<Program> make_program(const Json& job) {
  const Json& point = job["case"];
  std::string device = point["device"].as_text();
  size_t colon = device.find(':');
  int index = colon == std::string::npos ? 0 : std::atoi(device.c_str() + colon + 1);
  bool captured = point["rung"].as_text() == "vendor:graph";
  auto backend = std::make_unique<vendor::Cuda>(index, job["cache"].as_text(), job["stage"].as_text(), point["precision"].as_text(), captured);
  return std::make_unique<vendor::VendorProgram>(job, std::move(backend));
}

}  // namespace tare

int main() { return tare::work(); }

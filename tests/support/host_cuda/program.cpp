// The CUDA program's own kernels and products on a CPU, beside BLAS in the place of cuDNN: leaves the evidence of a plan.
#include "native/worker/worker.hpp"

#include "vendor/cuda/generated.cuh"
#include "vendor/cuda/kernels.cuh"
#include "vendor/cuda/products.cuh"

#include "vendor/cpu/convolution.hpp"
#include "vendor/cpu/widened.hpp"

namespace tare::vendor {

inline Call library_call(const Op& op) {
  if (op.kind == "conv") return convolution(op);
  if (op.kind == "conv_input_gradient") return convolution_input_gradient(op);
  if (op.kind == "conv_weight_gradient") return convolution_weight_gradient(op);
  throw Failure("unsupported", "no stand-in for " + op.kind);
}

class Host : public Backend {
 public:
  // Every way to deal out the work has its turn.
  explicit Host(std::string stage) : device_(0, ""), search_(device_), products_(device_, search_, false), stage_(std::move(stage)) {
    device_.choose = [turn = 0](const auto&, int count, const auto&) mutable { return turn++ % count; };
  }
  char* allocate(int64_t bytes) override { return device_.allocate(bytes); }
  char* allocate_host(int64_t bytes, bool) override { return device_.allocate(bytes); }
  void upload(char* to, const char* from, int64_t bytes) override { std::memcpy(to, from, bytes); }
  void download(char* to, const char* from, int64_t bytes) override { std::memcpy(to, from, bytes); }
  void set(char* to, int byte, int64_t bytes) override { std::memset(to, byte, bytes); }
  void copy(char* to, const char* from, int64_t bytes) override { std::memcpy(to, from, bytes); }
  Call feed(char* to, const char* from, int64_t bytes) override {
    return [=] { std::memcpy(to, from, bytes); };
  }
  std::vector<Call> compile(const ExecutionPlan& plan, std::vector<std::string>&) override {
    std::vector<Call> calls;
    for (const auto& op : plan.ops) {
      std::string dtype = op.attributes["dtype"].as_text(plan.dtype);
      if (dtype == "f32") add<float>(op, calls);
      else if (dtype == "bf16") add<__nv_bfloat16>(op, calls);
      else add<__half>(op, calls);
    }
    return calls;
  }

 private:
  template <class T>
  void add(const Op& op, std::vector<Call>& calls) {
    if (op.kind == "fused") {
      if (!library_) library_ = std::make_unique<KernelLibrary>(stage_ + "/kernels.fatbin");
      calls.push_back(fused(device_, *library_, op));
      return;
    }
    if (op.kind == "matmul") {
      calls.push_back(products_.bind(op)());
      return;
    }
    std::vector<Call> own = kernel_calls<T>(device_, partials_, op);
    for (auto& call : own) calls.push_back(std::move(call));
    if (!own.empty()) return;
    bool in_epilogue = op.activation().empty() || op.activation() == "relu";
    auto product = product_of(op);
    if (product && (in_epilogue || op.kind == "linear")) {
      calls.push_back(Matmul(device_, *product, false).call(0));
      if (!in_epilogue) calls.push_back(epilogue<T>(device_, op, op["y"].as<T>(), false));
      return;
    }
    auto widened = std::make_shared<Widened>(op);
    Call call = library_call(widened->op());
    calls.push_back([=] { widened->read(), call(), widened->write(); });
    bool ends = op.find("b") || op.find("z") || !op.activation().empty();
    if (ends && op.find("y")) calls.push_back(epilogue<T>(device_, op, op["y"].as<T>()));
  }

  Device device_;
  Search search_;
  Products products_;
  Partials partials_;
  std::string stage_;
  std::unique_ptr<KernelLibrary> library_;
};

}  // namespace tare::vendor

int main() {
  std::string text((std::istreambuf_iterator<char>(std::cin)), std::istreambuf_iterator<char>());
  tare::Json job = tare::JsonReader::read(text);
  tare::vendor::VendorProgram program(job, std::make_unique<tare::vendor::Host>(job["stage"].as_text()));
  // Three blocks of a kind have every batch once.
  tare::TimedEvidence evidence(program);
  for (const char* kind : {"pipelined", "latency"}) {
    tare::Series series{kind};
    evidence.begin(kind);
    for (int block = 0; block < 3; ++block) evidence.time(1, series);
  }
  tare::write_evidence(job["evidence"].as_text(), evidence.arrays());
}

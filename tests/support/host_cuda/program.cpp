// The CUDA program's own kernels and products on a CPU, beside BLAS in the place of cuDNN: leaves the evidence of a plan.
#include <limits>

#include "native/worker/worker.hpp"

#include "vendor/cuda/kernels.cuh"
#include "vendor/cuda/matmul.cuh"

#include "vendor/cpu/convolution.hpp"

namespace tare::vendor {

// A library's call on copies in float32: its inputs are widened before the call, its results are rounded after it.
template <class T>
class Widened {
 public:
  explicit Widened(const Op& op) : op_(op) {
    for (auto* side : {&op_.in, &op_.out})
      for (auto& [role, value] : *side) {
        values_.push_back(std::make_unique<Value>(*value));
        values_.back()->dtype = "f32";
        // NaN, so that a call that adds to memory which it did not clear shows in its first result.
        memory_.push_back(std::make_unique<std::vector<float>>(value->size, std::numeric_limits<float>::quiet_NaN()));
        values_.back()->data = reinterpret_cast<char*>(memory_.back()->data());
        copies_.push_back({value, memory_.back()->data(), side == &op_.out});
        value = values_.back().get();
      }
  }

  const Op& op() const { return op_; }
  void read() const {
    for (const auto& copy : copies_)
      for (int64_t i = 0; !copy.written && i < copy.value->size; ++i) copy.memory[i] = to_float(copy.value->template as<T>()[i]);
  }
  void write() const {
    for (const auto& copy : copies_)
      for (int64_t i = 0; copy.written && i < copy.value->size; ++i) copy.value->template as<T>()[i] = from_float<T>(copy.memory[i]);
  }

 private:
  struct Copy {
    Value* value;
    float* memory;
    bool written;
  };
  Op op_;
  std::vector<std::unique_ptr<Value>> values_;
  std::vector<std::unique_ptr<std::vector<float>>> memory_;
  std::vector<Copy> copies_;
};

inline Call library_call(const Op& op) {
  if (op.kind == "conv") return convolution(op);
  if (op.kind == "conv_input_gradient") return convolution_input_gradient(op);
  if (op.kind == "conv_weight_gradient") return convolution_weight_gradient(op);
  throw Failure("unsupported", "no stand-in for " + op.kind);
}

class Host : public Backend {
 public:
  // Every way to deal out the work has its turn.
  Host() : device_(0, "") {
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
    if (plan.dtype == "f32") return compile_as<float>(plan);
    return plan.dtype == "bf16" ? compile_as<__nv_bfloat16>(plan) : compile_as<__half>(plan);
  }

 private:
  template <class T>
  std::vector<Call> compile_as(const ExecutionPlan& plan) {
    std::vector<Call> calls;
    for (const auto& op : plan.ops) {
      std::vector<Call> own = kernel_calls<T>(device_, partials_, op);
      for (auto& call : own) calls.push_back(std::move(call));
      if (!own.empty()) continue;
      bool in_epilogue = op.activation().empty() || op.activation() == "relu";
      auto product = product_of(op);
      if (product && (in_epilogue || op.kind == "linear")) {
        calls.push_back(Matmul(device_, *product, false).call(0));
        if (!in_epilogue) calls.push_back(epilogue<T>(device_, op, op["y"].as<T>(), false));
        continue;
      }
      auto widened = std::make_shared<Widened<T>>(op);
      Call call = library_call(widened->op());
      calls.push_back([=] { widened->read(), call(), widened->write(); });
      bool ends = op.find("b") || op.find("z") || !op.activation().empty();
      if (ends && op.find("y")) calls.push_back(epilogue<T>(device_, op, op["y"].as<T>()));
    }
    return calls;
  }

  Device device_;
  Partials partials_;
};

}  // namespace tare::vendor

int main() {
  std::string text((std::istreambuf_iterator<char>(std::cin)), std::istreambuf_iterator<char>());
  tare::Json job = tare::JsonReader::read(text);
  tare::vendor::VendorProgram program(job, std::make_unique<tare::vendor::Host>());
  // Three blocks of a kind have every batch once.
  tare::TimedEvidence evidence(program);
  for (const char* kind : {"pipelined", "latency"}) {
    tare::Series series{kind};
    evidence.begin(kind);
    for (int block = 0; block < 3; ++block) evidence.time(1, series);
  }
  tare::write_evidence(job["evidence"].as_text(), evidence.arrays());
}

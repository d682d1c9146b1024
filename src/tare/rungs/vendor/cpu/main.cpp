// The vendor rung on a CPU: BLAS for matrix products, plain loops for the rest, in float32.
#include <thread>

#include "../../native/worker/worker.hpp"
#include "convolution.hpp"
#include "elementwise.hpp"
#include "fused.hpp"
#include "losses.hpp"
#include "normalization.hpp"
#include "copies.hpp"
#include "pooling.hpp"
#include "lstm.hpp"

namespace tare::vendor {

inline Call linear(const Op& op) {
  const float *x = floats(op, "x"), *w = floats(op, "w");
  float* y = op["y"].as<float>();
  int64_t out = op["w"].shape[0], in = op["w"].shape[1], rows = op["x"].size / in;
  return [=] { gemm(false, true, rows, out, in, x, in, w, in, 0, y, out); };
}

inline Call linear_weight_gradient(const Op& op) {
  const float *x = floats(op, "x"), *dy = floats(op, "dy");
  float* dw = op["dw"].as<float>();
  int64_t out = op["dw"].shape[0], in = op["dw"].shape[1], rows = op["x"].size / in;
  return [=] { gemm(true, false, out, in, rows, dy, out, x, in, 0, dw, in); };
}

inline Call linear_input_gradient(const Op& op) {
  const float *w = floats(op, "w"), *dy = floats(op, "dy");
  float* dx = op["dx"].as<float>();
  int64_t out = op["w"].shape[0], in = op["w"].shape[1], rows = op["dx"].size / in;
  return [=] { gemm(false, false, rows, in, out, dy, out, w, in, 0, dx, in); };
}

class Cpu : public Backend {
 public:
  Cpu(int threads, std::string stage) : stage_(std::move(stage)), team_(threads) { scipy_openblas_set_num_threads(threads); }

  char* allocate(int64_t bytes) override {
    void* result = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (!result) throw std::bad_alloc();
    std::memset(result, 0, bytes);
    return static_cast<char*>(result);
  }

  char* allocate_host(int64_t bytes, bool) override { return allocate(bytes); }
  void upload(char* to, const char* from, int64_t bytes) override { std::memcpy(to, from, bytes); }
  void download(char* to, const char* from, int64_t bytes) override { std::memcpy(to, from, bytes); }
  void set(char* to, int byte, int64_t bytes) override { std::memset(to, byte, bytes); }
  void copy(char* to, const char* from, int64_t bytes) override { std::memcpy(to, from, bytes); }
  Call feed(char* to, const char* from, int64_t bytes) override {
    return [=] { std::memcpy(to, from, bytes); };
  }

  std::vector<Call> compile(const ExecutionPlan& plan, std::vector<std::string>& names) override {
    if (plan.dtype != "f32") throw Failure("unsupported", "on a CPU the vendor rung computes in float32 only");
    std::vector<Call> calls;
    for (const auto& op : plan.ops) {
      size_t before = calls.size();
      add(op, calls);
      names.resize(names.size() + calls.size() - before, describe(op));
    }
    return calls;
  }

 private:
  void add(const Op& op, std::vector<Call>& calls) {
    static const std::map<std::string, Call (*)(const Op&)> plain = {
        {"activation_backward", activation_backward},
        {"adam", adam},
        {"affine", affine},
        {"average_pool", average_pool},
        {"average_pool_backward", average_pool_backward},
        {"bag_rows", bag_rows},
        {"batch_norm", batch_norm},
        {"batch_norm_backward", batch_norm_backward},
        {"bias_gradient", bias_gradient},
        {"conv_input_gradient", convolution_input_gradient},
        {"conv_weight_gradient", convolution_weight_gradient},
        {"copy_block", copy_block},
        {"cross_entropy", cross_entropy},
        {"linear_input_gradient", linear_input_gradient},
        {"linear_weight_gradient", linear_weight_gradient},
        {"log_softmax", log_softmax},
        {"matmul", matmul},
        {"max_pool", max_pool},
        {"max_pool_backward", max_pool_backward},
        {"mean_square", mean_square},
        {"multiply", multiply},
        {"order", order},
        {"permute", permute},
        {"scatter", scatter},
        {"scale_channels", scale_channels},
        {"scale_channels_backward", scale_channels_backward},
        {"sgd", sgd},
    };
    if (auto entry = plain.find(op.kind); entry != plain.end()) {
      calls.push_back(entry->second(op));
    } else if (op.kind == "conv" || op.kind == "linear") {
      calls.push_back(op.kind == "conv" ? convolution(op) : linear(op));
      if (op.find("b") || op.find("z") || !op.activation().empty()) calls.push_back(epilogue(op, op["y"].as<float>()));
    } else if (op.kind == "add" || op.kind == "activation") {
      calls.push_back(epilogue(op, op["x"].as<float>()));
    } else if (op.kind == "lstm") {
      auto& saved = saved_[op.integer("slot")] = allocate_saved(Lstm(op, op["y"]));
      calls.push_back(lstm_forward(op, saved));
    } else if (op.kind == "fused") {
      if (!library_) library_ = std::make_unique<KernelLibrary>(stage_ + "/kernels.so");
      calls.push_back(fused(op, *library_, team_));
    } else if (op.kind == "add_rows" || op.kind == "put_rows") {
      calls.push_back(scatter_rows(op, op.kind == "add_rows"));
    } else if (op.kind == "cumulate") {
      calls.push_back(op["x"].dtype == "i64" ? cumulate<int64_t>(op) : cumulate<float>(op));
    } else if (op.kind == "place_of_extreme") {
      calls.push_back(op["x"].dtype == "i64" ? place_of_extreme<int64_t>(op) : place_of_extreme<float>(op));
    } else if (op.kind == "lstm_backward") {
      calls.push_back(lstm_backward(op, saved_.at(op.integer("slot"))));
    } else {
      throw Failure("unsupported", "on a CPU the vendor rung has no " + op.kind + op.where());
    }
  }

  std::map<int64_t, std::shared_ptr<SavedState>> saved_;
  std::string stage_;
  std::unique_ptr<KernelLibrary> library_;
  Team team_;
};

}  // namespace tare::vendor

namespace tare {

std::unique_ptr<Program> make_program(const Json& job) {
  // The same default as torch: the environment's number, otherwise one thread per core.
  const char* wanted = std::getenv("OMP_NUM_THREADS");
  int given = wanted ? std::atoi(wanted) : 0;
  int usual = given > 0 ? given : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  int threads = static_cast<int>(job["case"]["threads"].as_number(usual));
  return std::make_unique<vendor::VendorProgram>(job, std::make_unique<vendor::Cpu>(threads, job["stage"].as_text()));
}

}  // namespace tare

int main() { return tare::work(); }

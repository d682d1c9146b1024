// The vendor rung on a CPU: BLAS for matrix products, plain loops for the rest, in float32. Values of 16 bits are widened
// for them; generated kernels read them as they are.
#include <thread>

#include "../../native/worker/worker.hpp"
#include "convolution.hpp"
#include "copies.hpp"
#include "elementwise.hpp"
#include "fused.hpp"
#include "linear.hpp"
#include "losses.hpp"
#include "lstm.hpp"
#include "normalization.hpp"
#include "pooling.hpp"
#include "widened.hpp"

namespace tare::vendor {

class Cpu : public Backend {
 public:
  Cpu(int threads, std::string stage) : stage_(std::move(stage)), team_(threads) { ops::set_blas_threads(threads); }

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
    std::vector<Call> calls;
    for (const auto& op : plan.ops) {
      size_t before = calls.size();
      if (!Widened::needed(op)) add(op, calls);
      else calls.push_back(widened(op));
      names.resize(names.size() + calls.size() - before, describe(op));
    }
    return calls;
  }

 private:
  Call widened(const Op& op) {
    auto copies = std::make_shared<Widened>(op);
    std::vector<Call> calls;
    add(copies->op(), calls);
    return [=] {
      copies->read();
      for (const auto& call : calls) call();
      copies->write();
    };
  }

  void add(const Op& op, std::vector<Call>& calls) {
    static const std::map<std::string, Call (*)(const Op&)> plain = {
        {"activation_backward", activation_backward},
        {"adam", adam},
        {"add_rows", add_rows},
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
        {"put_rows", put_rows},
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
      auto& saved = saved_[op.integer("slot")] = std::make_shared<ops::SavedState>(lstm_of(op, op["y"]));
      calls.push_back(lstm_forward(op, saved));
    } else if (op.kind == "fused") {
      if (!library_) library_ = std::make_unique<KernelLibrary>(stage_ + "/kernels.so");
      calls.push_back(fused(op, *library_, team_));
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

  std::map<int64_t, std::shared_ptr<ops::SavedState>> saved_;
  std::string stage_;
  std::unique_ptr<KernelLibrary> library_;
  ops::Team team_;
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

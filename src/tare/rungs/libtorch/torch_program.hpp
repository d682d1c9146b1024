// The step that all LibTorch rungs share: same weights, same batch, same optimizer, same precision as in Python
// (tare/rungs/torch/program.py). A rung gives the model: `forward`, and for training its loss, parameters and buffers.
#pragma once

#include <ATen/autocast_mode.h>
#include <torch/script.h>

#include <fstream>
#include <map>

#include "device.hpp"
#include "profile.hpp"
#include "wheel.hpp"

namespace tare {

using Tensors = std::vector<torch::Tensor>;
using Named = std::vector<std::pair<std::string, torch::Tensor>>;

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// What torch.save wrote: a list of tensors.
inline Tensors load_tensors(const std::string& path) {
  std::string bytes = read_file(path);
  torch::IValue loaded = torch::pickle_load({bytes.begin(), bytes.end()});
  Tensors tensors;
  for (const auto& value : loaded.toListRef()) tensors.push_back(value.toTensor());
  return tensors;
}

inline Array to_array(const torch::Tensor& tensor) {
  auto host = tensor.detach().to(torch::kCPU, torch::kFloat).contiguous();
  const float* data = host.data_ptr<float>();
  return {host.sizes().vec(), {data, data + host.numel()}};
}

class TorchProgram : public Program {
 public:
  explicit TorchProgram(const Json& job) : case_(job["case"]), folder_(job["stage"].as_text()), device_(case_["device"].as_text("cpu")) {
    settings_ = JsonReader::read(read_file(folder_ + "/stage.json"));
    trains_ = case_["mode"].as_text() == "train";
    bool tf32 = case_["precision"].as_text() == "tf32";
    at::globalContext().setAllowTF32CuBLAS(tf32);
    at::globalContext().setAllowTF32CuDNN(tf32);
    if (!case_["threads"].is_null()) at::set_num_threads(static_cast<int>(case_["threads"].as_number()));
    autocast_ = settings_["autocast"].as_text();
    std::string feed = case_["feed"].as_text();
    copies_ = feed != "device";
    non_blocking_ = feed == "pinned";
    Tensors tensors = load_tensors(folder_ + "/batches.pt");
    size_t each = tensors.size() / static_cast<size_t>(settings_["batches"].as_number());
    for (size_t i = 0; i < tensors.size(); i += each)
      batches_.push_back(hold({tensors.begin() + i, tensors.begin() + i + each}));
    batch_ = hold({tensors.begin(), tensors.begin() + each});
    if (!trains_) inference_.emplace();
  }

  void step() override {
    Tensors batch = copies_ ? moved() : batch_;
    if (!trains_) {
      outputs_ = with_autocast([&] { return forward(batch); });
      return;
    }
    optimizer_->zero_grad();
    torch::Tensor target = batch.back();
    batch.pop_back();
    torch::Tensor loss = with_autocast([&] { return objective(batch, target); });
    loss.backward();
    optimizer_->step();
    outputs_ = {loss.detach()};
  }

  Arrays fetch() override {
    Arrays arrays;
    for (size_t i = 0; i < outputs_.size(); ++i) arrays.emplace_back("output/" + std::to_string(i), to_array(outputs_[i]));
    return arrays;
  }

  double checksum() override {
    torch::Tensor sum = torch::zeros({}, torch::dtype(torch::kFloat).device(device_.device));
    for (const auto& output : outputs_)
      if (output.is_floating_point()) sum = sum + output.sum(torch::kFloat);
    return sum.item<float>();
  }

  bool trains() const override { return trains_; }

  void select(int64_t batch) override {
    torch::NoGradGuard none;
    const Tensors& selected = batches_.at(static_cast<size_t>(batch));
    for (size_t i = 0; i < batch_.size(); ++i) batch_[i].copy_(selected[i], /*non_blocking=*/true);
  }

  void rewind() override {
    if (!trains_) return;
    torch::NoGradGuard none;
    for (size_t i = 0; i < state_.size(); ++i) state_[i].second.copy_(initial_[i], /*non_blocking=*/true);
    // In place: an optimizer without state would allocate it in the next step, which is timed. SGD's momentum starts as
    // the first gradient either way.
    for (auto& [parameter, state] : optimizer_->state()) {
      if (auto* sgd = dynamic_cast<torch::optim::SGDParamState*>(state.get())) {
        if (sgd->momentum_buffer().defined()) sgd->momentum_buffer().zero_();
      } else if (auto* adam = dynamic_cast<torch::optim::AdamParamState*>(state.get())) {
        clear(*adam);
      } else if (auto* adamw = dynamic_cast<torch::optim::AdamWParamState*>(state.get())) {
        clear(*adamw);
      }
    }
  }

  Arrays state() override {
    Arrays arrays;
    bool updates = settings_["updates"].boolean;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const auto& [name, tensor] = parameters_[i];
      if (tensor.grad().defined()) arrays.emplace_back("gradient/" + name, to_array(tensor.grad()));
      if (updates) arrays.emplace_back("update/" + name, to_array(tensor.detach().to(torch::kCPU) - initial_[i]));
    }
    return arrays;
  }

  // Into the tensors of the batch that is there: type, device and layout stay the case's.
  void feed(const Arrays& batch) override {
    if (batch.size() != batch_.size()) throw Failure("exception", "a batch of another number of arrays was staged");
    torch::NoGradGuard none;
    for (size_t i = 0; i < batch.size(); ++i) {
      auto& values = const_cast<std::vector<float>&>(batch[i].second.values);
      batch_[i].copy_(torch::from_blob(values.data(), batch[i].second.shape, torch::kFloat));
    }
  }

  Arrays checkpoint() override {
    Arrays arrays;
    for (const auto& [name, tensor] : state_) arrays.emplace_back("weight/" + name, to_array(tensor));
    for (const auto& [name, tensor] : parameters_)
      if (auto* sgd = momentum_of(tensor); sgd && sgd->momentum_buffer().defined())
        arrays.emplace_back("momentum/" + name, to_array(sgd->momentum_buffer()));
    return arrays;
  }

  void restore(const Arrays& arrays) override {
    torch::NoGradGuard none;
    std::map<std::string, torch::Tensor> saved;
    for (const auto& [name, array] : arrays) {
      auto& values = const_cast<std::vector<float>&>(array.values);
      saved[name] = torch::from_blob(values.data(), array.shape, torch::kFloat);
    }
    for (auto& [name, tensor] : state_) {
      auto entry = saved.find("weight/" + name);
      if (entry == saved.end()) throw Failure("exception", "the checkpoint has no weight " + name);
      tensor.copy_(entry->second.view(tensor.sizes()));
    }
    for (auto& [name, tensor] : parameters_) {
      auto entry = saved.find("momentum/" + name);
      if (entry == saved.end()) continue;
      if (!momentum_of(tensor))
        optimizer_->state()[tensor.unsafeGetTensorImpl()] = std::make_unique<torch::optim::SGDParamState>();
      auto* sgd = momentum_of(tensor);
      if (!sgd->momentum_buffer().defined()) sgd->momentum_buffer(torch::zeros_like(tensor));
      sgd->momentum_buffer().copy_(entry->second.view(tensor.sizes()));
    }
  }

  void synchronize() override { device_.synchronize(); }
  bool drain() override {
    device_.synchronize();
    return device_.overlaps();
  }
  bool overlaps() const override { return device_.overlaps(); }
  void mark_start() override { device_.mark_start(); }
  void mark_end() override { device_.mark_end(); }
  std::optional<int64_t> device_ns() override { return device_.elapsed_ns(); }
  void mark_prepared() override { device_.forget_peaks(); }
  Net net(int64_t steps) override { return device_.device.is_cuda() ? kernel_time(*this, steps) : Program::net(steps); }
  std::optional<DeviceMemory> device_memory() override { return device_.memory(); }

 protected:
  virtual Tensors forward(const Tensors& args) = 0;
  virtual torch::Tensor objective(const Tensors&, const torch::Tensor&) { throw Failure("unsupported", "this rung does not train"); }

  // A rung that trains calls this once it has its model.
  void train(Named parameters, Named buffers) {
    parameters_ = std::move(parameters);
    state_ = parameters_;
    state_.insert(state_.end(), buffers.begin(), buffers.end());
    // Pinned where there is a GPU, because `rewind` copies them back between timed blocks.
    for (const auto& [name, tensor] : state_) {
      torch::Tensor copy = tensor.detach().to(torch::kCPU).clone();
      initial_.push_back(device_.device.is_cuda() ? copy.pin_memory() : copy);
    }
    make_optimizer();
  }

  const Json& case_;
  std::string folder_;
  Json settings_;
  Device device_;
  bool trains_ = false;

 private:
  template <class Work>
  auto with_autocast(Work work) -> decltype(work()) {
    if (autocast_.empty()) return work();
    auto kind = device_.device.type();
    at::autocast::set_autocast_dtype(kind, autocast_ == "bfloat16" ? torch::kBFloat16 : torch::kHalf);
    at::autocast::set_autocast_enabled(kind, true);
    auto result = work();
    at::autocast::set_autocast_enabled(kind, false);
    at::autocast::clear_cache();
    return result;
  }

  // Copies of a batch where steps read it: on the device, or in pinned or pageable host memory.
  Tensors hold(const Tensors& batch) const {
    Tensors copies;
    for (const auto& tensor : batch) {
      torch::Tensor copy = copies_ ? tensor.clone() : tensor.to(device_.device, tensor.scalar_type(), false, /*copy=*/true);
      copies.push_back(non_blocking_ ? copy.pin_memory() : copy);
    }
    return copies;
  }

  template <class State>
  static void clear(State& state) {
    state.step(0);
    state.exp_avg().zero_();
    state.exp_avg_sq().zero_();
  }

  // The state of SGD for a parameter, once it has one.
  torch::optim::SGDParamState* momentum_of(const torch::Tensor& parameter) {
    auto entry = optimizer_->state().find(parameter.unsafeGetTensorImpl());
    return entry == optimizer_->state().end() ? nullptr : dynamic_cast<torch::optim::SGDParamState*>(entry->second.get());
  }

  Tensors moved() const {
    Tensors there;
    for (const auto& tensor : batch_) there.push_back(tensor.to(device_.device, non_blocking_));
    return there;
  }

  void make_optimizer() {
    Tensors tensors;
    for (const auto& [name, tensor] : parameters_) tensors.push_back(tensor);
    std::string kind = case_["optimizer"].as_text();
    double rate = settings_["learning_rate"].as_number();
    if (kind == "sgd") {
      auto options = torch::optim::SGDOptions(rate).momentum(settings_["momentum"].as_number());
      optimizer_ = std::make_unique<torch::optim::SGD>(tensors, options);
    } else if (kind == "adam") {
      optimizer_ = std::make_unique<torch::optim::Adam>(tensors, torch::optim::AdamOptions(rate));
    } else {
      optimizer_ = std::make_unique<torch::optim::AdamW>(tensors, torch::optim::AdamWOptions(rate));
    }
  }

  std::string autocast_;
  // `step` reads `batch_`; `select` copies one of `batches_` there.
  Tensors batch_, outputs_, initial_;
  std::vector<Tensors> batches_;
  Named parameters_, state_;
  bool copies_ = false, non_blocking_ = false;
  std::optional<c10::InferenceMode> inference_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
};

}  // namespace tare

// libtorch: networks written in C++ on the LibTorch frontend, with the weights that Python made.
#include "../native/worker/worker.hpp"
#include "modules.hpp"
#include "torch_program.hpp"

namespace tare {

class LibTorch : public TorchProgram {
 public:
  explicit LibTorch(const Json& job) : TorchProgram(job), network_(make_network(case_["workload"].as_text(), case_["sizes"])) {
    if (!network_) throw Failure("unsupported", case_["workload"].as_text() + " is not written in C++");
    load_weights();
    network_->train(trains_);
    if (!trains_) return;
    Named parameters, buffers;
    for (const auto& entry : network_->named_parameters()) parameters.emplace_back(entry.key(), entry.value());
    for (const auto& entry : network_->named_buffers()) buffers.emplace_back(entry.key(), entry.value());
    train(parameters, buffers);
  }

 protected:
  Tensors forward(const Tensors& args) override { return network_->run(args.at(0)); }

  torch::Tensor objective(const Tensors& args, const torch::Tensor& target) override {
    return network_->loss(network_->run(args.at(0)), target);
  }

 private:
  // Matched by name: the stage writes the names with the tensors, so that a network with other parameters is refused.
  void load_weights() {
    Tensors weights = load_tensors(folder_ + "/weights.pt");
    std::map<std::string, torch::Tensor> named;
    for (size_t i = 0; i < weights.size(); ++i) named[settings_["weights"].list.at(i).text] = weights[i];
    torch::NoGradGuard none;
    size_t placed = 0;
    auto place = [&](const std::string& name, torch::Tensor& tensor) {
      auto found = named.find(name);
      if (found == named.end() || found->second.sizes() != tensor.sizes())
        throw Failure("exception", "the network in C++ has a tensor " + name + " that the one in Python has not");
      // Same type, device and memory layout as in Python: the tensor itself becomes the module's parameter.
      tensor.set_data(found->second.to(device_.device));
      ++placed;
    };
    for (auto& entry : network_->named_parameters()) place(entry.key(), entry.value());
    for (auto& entry : network_->named_buffers()) place(entry.key(), entry.value());
    if (placed != named.size()) throw Failure("exception", "the network in Python has tensors that the one in C++ has not");
  }

  std::shared_ptr<Network> network_;
};

std::unique_ptr<Program> make_program(const Json& job) { return std::make_unique<LibTorch>(job); }

}  // namespace tare

int main() { return tare::work(); }

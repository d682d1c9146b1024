// libtorch:script: any workload that can be traced, from its TorchScript archive, without Python in the process.
#include <map>
#include <set>

#include "../native/worker/worker.hpp"
#include "torch_program.hpp"

namespace tare {

class Script : public TorchProgram {
 public:
  explicit Script(const Json& job) : TorchProgram(job), module_(torch::jit::load(folder_ + "/model.pt", device_.device)) {
    if (!trains_) return;
    module_.train();
    tie();
    Named parameters, buffers;
    std::set<const void*> known;
    // The archive holds model and loss; the reference knows the names of the model alone. A shared weight is listed once,
    // by its first name.
    for (const auto& entry : module_.named_parameters())
      if (known.insert(entry.value.unsafeGetTensorImpl()).second) parameters.emplace_back(own(entry.name), entry.value);
    for (const auto& entry : module_.named_buffers()) buffers.emplace_back(own(entry.name), entry.value);
    train(parameters, buffers);
  }

 protected:
  Tensors forward(const Tensors& args) override {
    Tensors leaves;
    flatten(module_.forward(inputs(args)), leaves);
    return leaves;
  }

  torch::Tensor objective(const Tensors& args, const torch::Tensor& target) override {
    auto all = inputs(args);
    all.emplace_back(target);
    return module_.forward(all).toTensor();
  }

 private:
  // A shared weight is two tensors with the same memory in the archive. Each would get a part of the gradient, and the
  // optimizer would treat them as two weights.
  void tie() {
    std::map<std::pair<void*, std::vector<int64_t>>, torch::Tensor> first;
    for (auto submodule : module_.named_modules())
      for (const auto& entry : submodule.value.named_parameters(/*recurse=*/false)) {
        auto [found, fresh] = first.try_emplace({entry.value.data_ptr(), entry.value.sizes().vec()}, entry.value);
        if (!fresh) submodule.value.setattr(entry.name, found->second);
      }
  }

  static std::string own(const std::string& name) { return name.rfind("model.", 0) == 0 ? name.substr(6) : name; }

  static std::vector<torch::IValue> inputs(const Tensors& args) { return {args.begin(), args.end()}; }

  static void flatten(const torch::IValue& value, Tensors& leaves) {
    if (value.isTensor()) leaves.push_back(value.toTensor());
    else if (value.isTuple())
      for (const auto& item : value.toTupleRef().elements()) flatten(item, leaves);
    else if (value.isList())
      for (const auto& item : value.toListRef()) flatten(item, leaves);
  }

  torch::jit::Module module_;
};

std::unique_ptr<Program> make_program(const Json& job) { return std::make_unique<Script>(job); }

}  // namespace tare

int main() { return tare::work(); }

// aot: any workload that torch.export can export, compiled ahead of time by AOTInductor, without Python in the process.
// Inference only.
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include "../native/worker/worker.hpp"
#include "torch_program.hpp"

namespace tare {

class Aot : public TorchProgram {
 public:
  explicit Aot(const Json& job) : TorchProgram(job), loader_(folder_ + "/model.pt2", "model", false, 1, index()) {}

 protected:
  Tensors forward(const Tensors& args) override { return loader_.run(args); }

 private:
  c10::DeviceIndex index() const { return device_.device.is_cpu() ? -1 : device_.device.index(); }

  torch::inductor::AOTIModelPackageLoader loader_;
};

std::unique_ptr<Program> make_program(const Json& job) { return std::make_unique<Aot>(job); }

}  // namespace tare

int main() { return tare::work(); }

// Runs operators of a step by our own kernels, one after the other, and leaves every value beside it as NAME.bin: the
// same as cpu_calls.cpp, on a GPU or, with tests/support/host_cuda, on a CPU.
#include "vendor/cuda/elementwise.cuh"
#include "vendor/cuda/normalization.cuh"
#include "vendor/cuda/pooling.cuh"

using namespace tare::vendor;

int main(int, char** words) {
  std::string folder = words[1];
  ExecutionPlan plan(folder);
  Device device(0, "");
  for (auto& value : plan.values) value.data = device.allocate(value.bytes());
  for (const auto& [value, bytes] : plan.contents) device.copy(value->data, bytes.data(), bytes.size(), cudaMemcpyHostToDevice);
  const std::map<std::string, Call (*)(Device&, const Op&)> calls = {{"max_pool", pool<float, true>},
                                                                     {"max_pool_backward", pool_backward<float, true>},
                                                                     {"activation_backward", activation_backward<float>}};
  for (const auto& op : plan.ops) (op.kind == "activation" ? epilogue<float>(device, op, op["x"].as<float>()) : calls.at(op.kind)(device, op))();
  for (const auto& value : plan.values) {
    std::string entry(value.bytes(), 0);
    device.copy(entry.data(), value.data, value.bytes(), cudaMemcpyDeviceToHost);
    std::ofstream(folder + "/" + value.name + ".bin", std::ios::binary) << entry;
  }
}

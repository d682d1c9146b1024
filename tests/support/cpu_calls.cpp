// Runs the operators of a step on the CPU, one after the other, and leaves every value beside it as NAME.bin: no audit
// looks at the numbers, so that they may be what no measurement would be allowed to end with.
#include "vendor/cpu/elementwise.hpp"
#include "vendor/cpu/pooling.hpp"

using namespace tare::vendor;

int main(int, char** words) {
  std::string folder = words[1];
  ExecutionPlan plan(folder);
  std::map<std::string, std::vector<char>> regions;
  for (auto& value : plan.values) {
    auto& region = regions[value.name];
    region.resize(value.bytes());
    value.data = region.data();
  }
  for (const auto& [value, bytes] : plan.contents) std::memcpy(value->data, bytes.data(), bytes.size());
  const std::map<std::string, Call (*)(const Op&)> calls = {
      {"max_pool", max_pool}, {"max_pool_backward", max_pool_backward}, {"activation_backward", activation_backward}};
  for (const auto& op : plan.ops) (op.kind == "activation" ? epilogue(op, op["x"].as<float>()) : calls.at(op.kind)(op))();
  for (const auto& value : plan.values) std::ofstream(folder + "/" + value.name + ".bin", std::ios::binary).write(value.data, value.bytes());
}

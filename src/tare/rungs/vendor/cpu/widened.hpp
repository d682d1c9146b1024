// Calls that know only float32, on copies of 16-bit values: what is read is widened before the call, what is written is
// rounded after it.
#pragma once

#include <limits>
#include <memory>

#include "../half.hpp"
#include "../program.hpp"

namespace tare::vendor {

class Widened {
 public:
  explicit Widened(const Op& op) : op_(op) {
    for (auto* side : {&op_.in, &op_.out})
      for (auto& [role, value] : *side) {
        if (!is_half(value->dtype)) continue;
        values_.push_back(std::make_unique<Value>(*value));
        values_.back()->dtype = "f32";
        // NaN, so that a call that adds to memory which it did not clear shows in its first result.
        memory_.push_back(std::make_unique<std::vector<float>>(value->size, std::numeric_limits<float>::quiet_NaN()));
        values_.back()->data = reinterpret_cast<char*>(memory_.back()->data());
        copies_.push_back({value, memory_.back()->data(), side == &op_.out});
        value = values_.back().get();
      }
  }

  static bool is_half(const std::string& dtype) { return dtype == "bf16" || dtype == "f16"; }
  static bool needed(const Op& op) {
    // The kernels read them as they are, and a copy of words moves them as they are (fusion/emit.py).
    if (op.kind == "fused" || (op.kind == "copy_block" && op.attributes["dtype"].as_text("") == "f32")) return false;
    for (auto* side : {&op.in, &op.out})
      for (auto& [role, value] : *side)
        if (is_half(value->dtype)) return true;
    return false;
  }

  const Op& op() const { return op_; }
  void read() const {
    for (const auto& copy : copies_)
      for (int64_t i = 0; !copy.written && i < copy.value->size; ++i)
        copy.memory[i] = half_to_float(copy.value->as<uint16_t>()[i], copy.value->dtype == "bf16");
  }
  void write() const {
    for (const auto& copy : copies_)
      for (int64_t i = 0; copy.written && i < copy.value->size; ++i)
        copy.value->as<uint16_t>()[i] = float_to_half(copy.memory[i], copy.value->dtype == "bf16");
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

}  // namespace tare::vendor

// The activation of an op.
#pragma once

#include <map>
#include <string>

#include "half.hpp"
#include "ops/curves.hpp"
#include "plan.hpp"

namespace tare::vendor {

using ops::apply_derivative;
using ops::Clamp;
using ops::Curve;

// A bound as the result's type stores it. A bound that is rounded inwards would make clamped values look as if they were
// inside.
inline float bound(const Op& op, const char* name) {
  const Value* kept = op.find("y") ? op.find("y") : op.find("x");
  return round_to(kept ? kept->dtype : "f32", static_cast<float>(op.number(name)));
}

// Calls `make` with the activation of an op. Clamps have a type of their own, so that they need no switch for every
// element.
template <class Make>
auto with_activation(const Op& op, Make make) {
  static const std::map<std::string, Curve::Kind> curves = {
      {"leaky_relu", Curve::leaky_relu}, {"hardsigmoid", Curve::hardsigmoid}, {"sigmoid", Curve::sigmoid}, {"tanh", Curve::tanh},
      {"hardswish", Curve::hardswish},   {"silu", Curve::silu},               {"gelu", Curve::gelu},       {"gelu_tanh", Curve::gelu_tanh}};
  std::string name = op.activation();
  if (name.empty()) return make(Clamp{});
  if (name == "relu") return make(Clamp{0});
  if (name == "relu6") return make(Clamp{0, 6});
  if (name == "hardtanh") return make(Clamp{bound(op, "low"), bound(op, "high")});
  auto entry = curves.find(name);
  if (entry == curves.end()) throw Failure("unsupported", "the vendor rung has no activation " + name);
  return make(Curve{entry->second, static_cast<float>(op.attributes["parameter"].as_number(0))});
}

}  // namespace tare::vendor

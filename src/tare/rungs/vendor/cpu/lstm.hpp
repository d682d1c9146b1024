// LSTMs of a plan.
#pragma once

#include "../ops/lstm.hpp"
#include "values.hpp"

namespace tare::vendor {

inline ops::Lstm lstm_of(const Op& op, const Value& y) {
  return {y.shape[0], y.shape[1], op.integer("hidden"), op.integer("layers"), op["x"].shape[2]};
}

inline ops::LstmWeights lstm_weights(const Op& op) {
  ops::LstmWeights weights;
  for (int64_t i = 0; i < 4 * op.integer("layers"); ++i) weights.push_back(op["w" + std::to_string(i)].as<float>());
  return weights;
}

inline Call lstm_forward(const Op& op, std::shared_ptr<ops::SavedState> saved) {
  auto lstm = lstm_of(op, op["y"]);
  auto weights = lstm_weights(op);
  const float* x = floats(op, "x");
  float *y = op["y"].as<float>(), *last_h = op["h"].as<float>(), *last_c = op["c"].as<float>();
  return [=] { ops::lstm_forward(x, weights, y, last_h, last_c, *saved, lstm); };
}

inline Call lstm_backward(const Op& op, std::shared_ptr<ops::SavedState> saved) {
  auto lstm = lstm_of(op, op["dy"]);
  auto weights = lstm_weights(op);
  const float *x = floats(op, "x"), *dy = floats(op, "dy");
  float* dx = op.find("dx") ? op["dx"].as<float>() : nullptr;
  ops::LstmGradients gradients;
  for (int64_t i = 0; i < 4 * lstm.layers; ++i) gradients.push_back(op["dw" + std::to_string(i)].as<float>());
  return [=] { ops::lstm_backward(scratch(), x, dy, weights, dx, gradients, *saved, lstm); };
}

}  // namespace tare::vendor

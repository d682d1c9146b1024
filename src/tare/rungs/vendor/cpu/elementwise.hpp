// Elementwise ops of a plan: sums, products, activations, biases, the update.
#pragma once

#include "../activation.hpp"
#include "../half.hpp"
#include "../ops/elementwise.hpp"
#include "values.hpp"

namespace tare::vendor {

inline Call epilogue(const Op& op, const float* x) {
  float* y = op["y"].as<float>();
  const float *b = floats(op, "b"), *z = floats(op, "z");
  auto shape = channels_of(op["y"]);
  return with_activation(op, [=](auto activation) -> Call { return [=] { ops::epilogue(x, b, z, y, shape, activation); }; });
}

inline Call activation_backward(const Op& op) {
  const float *x = floats(op, "x"), *y = floats(op, "y"), *dy = floats(op, "dy");
  float* dx = op["dx"].as<float>();
  int64_t size = op["dx"].size;
  return with_activation(op, [=](auto activation) -> Call {
    return [=] { ops::activation_backward(x, y, dy, dx, size, activation); };
  });
}

inline Call bias_gradient(const Op& op) {
  const float* dy = floats(op, "dy");
  float* db = op["db"].as<float>();
  auto shape = channels_of(op["dy"]);
  return [=] { ops::bias_gradient(scratch(), dy, db, shape); };
}

inline Call multiply(const Op& op) {
  const float *x = floats(op, "x"), *z = floats(op, "z");
  float* y = op["y"].as<float>();
  int64_t size = op["y"].size;
  return [=] { ops::multiply(x, z, y, size); };
}

inline Call scale_channels(const Op& op) {
  const float *x = floats(op, "x"), *s = floats(op, "s");
  float* y = op["y"].as<float>();
  auto shape = channels_of(op["x"]);
  int64_t images = op["x"].shape[0];
  return [=] { ops::scale_channels(x, s, y, shape, images); };
}

inline Call scale_channels_backward(const Op& op) {
  const float *x = floats(op, "x"), *s = floats(op, "s"), *dy = floats(op, "dy");
  float *dx = op["dx"].as<float>(), *ds = op["ds"].as<float>();
  auto shape = channels_of(op["x"]);
  int64_t images = op["x"].shape[0];
  return [=] { ops::scale_channels_backward(scratch(), x, s, dy, dx, ds, shape, images); };
}

// Weights of which some have half gradients and are stored in a half type: those come first (lowering/memory.py).
struct HalfWeights {
  explicit HalfWeights(const Op& op)
      : gradient(floats(op, "gradient")), half(floats(op, "gradient_half")), stored(op.find("weights") ? op["weights"].as<float>() : nullptr),
        master(op["master"].as<float>()), halves(stored ? op["weights"].size : 0),
        type(op.attributes["round"].boolean ? op.attributes["dtype"].as_text() : "") {}

  float gradient_at(int64_t i) const { return i < halves ? half[i] : gradient[i - halves]; }
  void set(int64_t i, float weight) const {
    master[i] = round_to(type, weight);
    if (i < halves) stored[i] = master[i];
  }

  const float *gradient, *half;
  float *stored, *master;
  int64_t halves;
  // What the masters are rounded to, where weights are stored in a half type.
  std::string type;
};

// The call that `make` returns for the weights of an update: those in float32 alone have a type without branches.
template <class Make>
Call with_weights(const Op& op, Make make) {
  if (op.find("weights") || op.attributes["round"].boolean) return make(HalfWeights(op));
  return make(ops::Weights{floats(op, "gradient"), op["master"].as<float>()});
}

inline Call sgd(const Op& op) {
  float* velocity = op["momentum"].as<float>();
  float rate = static_cast<float>(op.number("learning_rate")), momentum = static_cast<float>(op.number("momentum"));
  int64_t size = op["master"].size;
  return with_weights(op, [=](auto weights) -> Call { return [=] { ops::sgd(weights, velocity, size, rate, momentum); }; });
}

inline Call adam(const Op& op) {
  float *mean = op["momentum"].as<float>(), *square = op["second"].as<float>(), *steps = op["steps"].as<float>();
  ops::Adam settings{op.number("learning_rate"), op.number("first"), op.number("second"), op.number("epsilon"), op.number("decay")};
  int64_t size = op["master"].size;
  return with_weights(op, [=](auto weights) -> Call { return [=] { ops::adam(weights, mean, square, steps, size, settings); }; });
}

}  // namespace tare::vendor

// Elementwise ops of a plan: sums, products, activations, biases, the update.
#pragma once

#include "../activation.hpp"
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

inline Call sgd(const Op& op) {
  const float* gradient = floats(op, "gradient");
  float *master = op["master"].as<float>(), *velocity = op["momentum"].as<float>();
  float rate = static_cast<float>(op.number("learning_rate")), momentum = static_cast<float>(op.number("momentum"));
  int64_t size = op["master"].size;
  return [=] { ops::sgd(gradient, master, velocity, size, rate, momentum); };
}

inline Call adam(const Op& op) {
  const float* gradient = floats(op, "gradient");
  float *master = op["master"].as<float>(), *mean = op["momentum"].as<float>(), *square = op["second"].as<float>();
  float* steps = op["steps"].as<float>();
  ops::Adam settings{op.number("learning_rate"), op.number("first"), op.number("second"), op.number("epsilon"), op.number("decay")};
  int64_t size = op["master"].size;
  return [=] { ops::adam(gradient, master, mean, square, steps, size, settings); };
}

}  // namespace tare::vendor

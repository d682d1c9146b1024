// Softmax and the losses of a plan.
#pragma once

#include "../ops/losses.hpp"
#include "values.hpp"

namespace tare::vendor {

inline Call log_softmax(const Op& op) {
  const float* x = floats(op, "x");
  float* y = op["y"].as<float>();
  int64_t rows = op["x"].shape[0], size = op["x"].shape[1];
  return [=] { ops::log_softmax(x, y, rows, size); };
}

inline Call cross_entropy(const Op& op) {
  const float* x = floats(op, "x");
  const int64_t* target = op["target"].as<int64_t>();
  float *loss = op["loss"].as<float>(), *dx = op["dx"].as<float>();
  int64_t rows = op["x"].shape[0], size = op["x"].shape[1];
  return [=] { ops::cross_entropy(x, target, loss, dx, rows, size); };
}

inline Call mean_square(const Op& op) {
  const float *x = floats(op, "x"), *target = floats(op, "target");
  float *loss = op["loss"].as<float>(), *dx = op["dx"].as<float>();
  int64_t size = op["x"].size;
  return [=] { ops::mean_square(x, target, loss, dx, size); };
}

}  // namespace tare::vendor

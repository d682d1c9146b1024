// Linear layers of a plan.
#pragma once

#include "../ops/linear.hpp"
#include "values.hpp"

namespace tare::vendor {

inline Call linear(const Op& op) {
  const float *x = floats(op, "x"), *w = floats(op, "w");
  float* y = op["y"].as<float>();
  int64_t out = op["w"].shape[0], in = op["w"].shape[1], rows = op["x"].size / in;
  return [=] { ops::linear(x, w, y, rows, in, out); };
}

inline Call linear_weight_gradient(const Op& op) {
  const float *x = floats(op, "x"), *dy = floats(op, "dy");
  float* dw = op["dw"].as<float>();
  int64_t out = op["dw"].shape[0], in = op["dw"].shape[1], rows = op["x"].size / in;
  return [=] { ops::linear_weight_gradient(x, dy, dw, rows, in, out); };
}

inline Call linear_input_gradient(const Op& op) {
  const float *w = floats(op, "w"), *dy = floats(op, "dy");
  float* dx = op["dx"].as<float>();
  int64_t out = op["w"].shape[0], in = op["w"].shape[1], rows = op["dx"].size / in;
  return [=] { ops::linear_input_gradient(w, dy, dx, rows, in, out); };
}

}  // namespace tare::vendor

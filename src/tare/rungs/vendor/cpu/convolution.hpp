// Convolutions of a plan.
#pragma once

#include "../ops/convolution.hpp"
#include "values.hpp"

namespace tare::vendor {

inline ops::Convolution convolution_of(const Op& op, const Value& x, const Value& w, const Value& y) {
  ops::Convolution shape;
  std::copy_n(x.shape.begin(), 4, shape.image.begin());
  std::copy_n(y.shape.begin(), 4, shape.result.begin());
  shape.window = {w.shape[2], w.shape[3]};
  shape.stride = pair_of(op, "stride"), shape.padding = pair_of(op, "padding"), shape.dilation = pair_of(op, "dilation");
  shape.groups = op.integer("groups");
  shape.channels_last = w.channels_last();
  return shape;
}

inline Call convolution(const Op& op) {
  auto shape = convolution_of(op, op["x"], op["w"], op["y"]);
  const float *x = floats(op, "x"), *w = floats(op, "w");
  float* y = op["y"].as<float>();
  return [=] { ops::convolution(scratch(), x, w, y, shape); };
}

inline Call convolution_weight_gradient(const Op& op) {
  auto shape = convolution_of(op, op["x"], op["dw"], op["dy"]);
  const float *x = floats(op, "x"), *dy = floats(op, "dy");
  float* dw = op["dw"].as<float>();
  return [=] { ops::convolution_weight_gradient(scratch(), x, dy, dw, shape); };
}

inline Call convolution_input_gradient(const Op& op) {
  auto shape = convolution_of(op, op["dx"], op["w"], op["dy"]);
  const float *w = floats(op, "w"), *dy = floats(op, "dy");
  float* dx = op["dx"].as<float>();
  return [=] { ops::convolution_input_gradient(scratch(), w, dy, dx, shape); };
}

}  // namespace tare::vendor

// Batch norms of a plan.
#pragma once

#include "../activation.hpp"
#include "../ops/normalization.hpp"
#include "values.hpp"

namespace tare::vendor {

inline Call affine(const Op& op) {
  const float *x = floats(op, "x"), *scale = floats(op, "scale"), *shift = floats(op, "shift"), *z = floats(op, "z");
  float* y = op["y"].as<float>();
  auto shape = channels_of(op["y"]);
  return with_activation(op, [=](auto activation) -> Call {
    return [=] { ops::affine(x, scale, shift, z, y, shape, activation); };
  });
}

inline Call batch_norm(const Op& op) {
  const float *x = floats(op, "x"), *scale = floats(op, "scale"), *shift = floats(op, "shift"), *z = floats(op, "z");
  float *y = op["y"].as<float>(), *mean = op["mean"].as<float>(), *var = op["var"].as<float>();
  float *saved_mean = op["saved_mean"].as<float>(), *saved_invstd = op["saved_invstd"].as<float>();
  double eps = op.number("eps"), momentum = op.number("momentum");
  auto shape = channels_of(op["x"]);
  return with_activation(op, [=](auto activation) -> Call {
    return [=] {
      ops::batch_norm(scratch(), x, scale, shift, z, y, mean, var, saved_mean, saved_invstd, shape, eps, momentum, activation);
    };
  });
}

inline Call batch_norm_backward(const Op& op) {
  const float *x = floats(op, "x"), *dy = floats(op, "dy"), *dy2 = floats(op, "dy2"), *y = floats(op, "y");
  const float *scale = floats(op, "scale"), *shift = floats(op, "shift");
  const float *mean = floats(op, "saved_mean"), *invstd = floats(op, "saved_invstd");
  float *dx = op["dx"].as<float>(), *dscale = op["dscale"].as<float>(), *dshift = op["dshift"].as<float>();
  float* dz = op.find("dz") ? op["dz"].as<float>() : nullptr;
  auto shape = channels_of(op["x"]);
  return with_activation(op, [=](auto activation) -> Call {
    return [=] {
      ops::batch_norm_backward(scratch(), x, dy, dy2, y, scale, shift, mean, invstd, dx, dz, dscale, dshift, shape, activation);
    };
  });
}

}  // namespace tare::vendor

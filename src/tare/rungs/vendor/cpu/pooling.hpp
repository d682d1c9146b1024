// Pooling in a plan.
#pragma once

#include "../ops/pooling.hpp"
#include "values.hpp"

namespace tare::vendor {

inline ops::Pool pool_of(const Op& op, const Value& image, const Value& pooled) {
  ops::Pool pool;
  std::copy_n(image.shape.begin(), 4, pool.image.begin());
  std::copy_n(pooled.shape.begin(), 4, pool.pooled.begin());
  pool.adaptive = op.attributes["adaptive"].boolean;
  pool.channels_last = image.channels_last();
  if (!pool.adaptive) pool.kernel = pair_of(op, "kernel"), pool.stride = pair_of(op, "stride"), pool.padding = pair_of(op, "padding");
  return pool;
}

inline Call max_pool(const Op& op) {
  auto pool = pool_of(op, op["x"], op["y"]);
  const float* x = floats(op, "x");
  float* y = op["y"].as<float>();
  uint8_t* index = op.find("index") ? op["index"].as<uint8_t>() : nullptr;
  return [=] { ops::max_pool(x, y, index, pool); };
}

inline Call max_pool_backward(const Op& op) {
  auto pool = pool_of(op, op["dx"], op["dy"]);
  const float* dy = floats(op, "dy");
  float* dx = op["dx"].as<float>();
  const uint8_t* index = op["index"].as<uint8_t>();
  return [=] { ops::max_pool_backward(dy, index, dx, pool); };
}

inline Call average_pool(const Op& op) {
  auto pool = pool_of(op, op["x"], op["y"]);
  const float* x = floats(op, "x");
  float* y = op["y"].as<float>();
  return [=] { ops::average_pool(x, y, pool); };
}

inline Call average_pool_backward(const Op& op) {
  auto pool = pool_of(op, op["dx"], op["dy"]);
  const float* dy = floats(op, "dy");
  float* dx = op["dx"].as<float>();
  return [=] { ops::average_pool_backward(dy, dx, pool); };
}

}  // namespace tare::vendor

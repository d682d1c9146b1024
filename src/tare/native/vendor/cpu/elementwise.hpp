// What is done element by element: sums, activations, biases, orders in memory, the update.
#pragma once

#include "../activation.hpp"
#include "channels.hpp"

namespace tare::vendor {

// y = activation(x + b + z), in place where x is y.
inline Call epilogue(const Op& op, const float* x, const char* result = "y") {
  float* y = op[result].as<float>();
  const float *b = floats(op, "b"), *z = floats(op, "z");
  Channels shape(op[result]);
  return activated(op, [=](auto activation) -> Call {
    return [=] { shape.each([=](int64_t i, int64_t c) { y[i] = activation(x[i] + (b ? b[c] : 0) + (z ? z[i] : 0)); }); };
  });
}

// By what came before the activation, or by its result.
inline Call activation_backward(const Op& op) {
  const float *x = floats(op, "x"), *y = floats(op, "y"), *dy = floats(op, "dy");
  float* dx = op["dx"].as<float>();
  int64_t size = op["dx"].size;
  return activated(op, [=](auto activation) -> Call {
    return [=] {
      for (int64_t i = 0; i < size; ++i) dx[i] = dy[i] * (x ? activation.slope_at(x[i]) : activation.slope_of(y[i]));
    };
  });
}

inline Call bias_gradient(const Op& op) {
  const float* dy = floats(op, "dy");
  float* db = op["db"].as<float>();
  Channels shape(op["dy"]);
  auto sums = std::make_shared<std::vector<double>>(shape.channels);
  return [=] {
    std::fill(sums->begin(), sums->end(), 0.0);
    double* sum = sums->data();
    shape.each([=](int64_t i, int64_t c) { sum[c] += dy[i]; });
    for (int64_t c = 0; c < shape.channels; ++c) db[c] = static_cast<float>(sum[c]);
  };
}

// The same numbers in another order in memory.
inline Call reorder(const Op& op) {
  const Value &from = op["x"], &to = op["y"];
  return [from, to] {
    const auto& n = to.shape;
    for (int64_t a = 0; a < n[0]; ++a)
      for (int64_t b = 0; b < n[1]; ++b)
        for (int64_t c = 0; c < n[2]; ++c)
          for (int64_t d = 0; d < n[3]; ++d)
            to.as<float>()[a * to.strides[0] + b * to.strides[1] + c * to.strides[2] + d * to.strides[3]] =
                from.as<float>()[a * from.strides[0] + b * from.strides[1] + c * from.strides[2] + d * from.strides[3]];
  };
}

// v = momentum * v + g; w = w - rate * v.
inline Call sgd(const Op& op) {
  const float* gradient = floats(op, "gradient");
  float *master = op["master"].as<float>(), *velocity = op["momentum"].as<float>();
  float rate = static_cast<float>(op.number("learning_rate")), keep = static_cast<float>(op.number("momentum"));
  int64_t size = op["master"].size;
  return [=] {
    for (int64_t i = 0; i < size; ++i) {
      velocity[i] = keep * velocity[i] + gradient[i];
      master[i] -= rate * velocity[i];
    }
  };
}

}  // namespace tare::vendor

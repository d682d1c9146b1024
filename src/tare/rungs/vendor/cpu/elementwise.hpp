// Elementwise ops: sums, products, activations, biases, the update.
#pragma once

#include "../activation.hpp"
#include "../half.hpp"
#include "channels.hpp"

namespace tare::vendor {

// y = activation(x + b + z), in place where x is y.
inline Call epilogue(const Op& op, const float* x, const char* result = "y") {
  float* y = op[result].as<float>();
  const float *b = floats(op, "b"), *z = floats(op, "z");
  Channels shape(op[result]);
  return with_activation(op, [=](auto activation) -> Call {
    return [=] { shape.each([=](int64_t i, int64_t c) { y[i] = activation(x[i] + (b ? b[c] : 0) + (z ? z[i] : 0)); }); };
  });
}

// From the argument of the activation, or from its result.
inline Call activation_backward(const Op& op) {
  const float *x = floats(op, "x"), *y = floats(op, "y"), *dy = floats(op, "dy");
  float* dx = op["dx"].as<float>();
  int64_t size = op["dx"].size;
  return with_activation(op, [=](auto activation) -> Call {
    return [=] {
      for (int64_t i = 0; i < size; ++i) dx[i] = apply_derivative(dy[i], x ? activation.derivative_at_input(x[i]) : activation.derivative_at_output(y[i]));
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

// y = x * z.
inline Call multiply(const Op& op) {
  const float *x = floats(op, "x"), *z = floats(op, "z");
  float* y = op["y"].as<float>();
  int64_t size = op["y"].size;
  return [=] {
    for (int64_t i = 0; i < size; ++i) y[i] = x[i] * z[i];
  };
}

// One factor for each channel of each image.
inline Call scale_channels(const Op& op) {
  const float *x = floats(op, "x"), *s = floats(op, "s");
  float* y = op["y"].as<float>();
  Channels shape(op["x"]);
  int64_t images = op["x"].shape[0];
  return [=] { shape.each_of(images, [=](int64_t i, int64_t at) { y[i] = x[i] * s[at]; }); };
}

inline Call scale_channels_backward(const Op& op) {
  const float *x = floats(op, "x"), *s = floats(op, "s"), *dy = floats(op, "dy");
  float *dx = op["dx"].as<float>(), *ds = op["ds"].as<float>();
  Channels shape(op["x"]);
  int64_t images = op["x"].shape[0];
  auto sums = std::make_shared<std::vector<double>>(op["s"].size);
  return [=] {
    std::fill(sums->begin(), sums->end(), 0.0);
    double* sum = sums->data();
    shape.each_of(images, [=](int64_t i, int64_t at) {
      dx[i] = dy[i] * s[at];
      sum[at] += static_cast<double>(dy[i]) * x[i];
    });
    for (size_t at = 0; at < sums->size(); ++at) ds[at] = static_cast<float>(sum[at]);
  };
}

// Flat buffers of gradients, masters and weights: those of half gradients come first (lowering/memory.py).
struct Update {
  explicit Update(const Op& op)
      : gradient(floats(op, "gradient")), half(floats(op, "gradient_half")), weights(op.find("weights") ? op["weights"].as<float>() : nullptr),
        master(op["master"].as<float>()), halves(weights ? op["weights"].size : 0), size(op["master"].size),
        type(op.attributes["round"].boolean ? op.attributes["dtype"].as_text() : "") {}

  float at(int64_t i) const { return i < halves ? half[i] : gradient[i - halves]; }
  void set(int64_t i, float weight) const {
    master[i] = round_to(type, weight);
    if (i < halves) weights[i] = master[i];
  }

  const float *gradient, *half;
  float *weights, *master;
  int64_t halves, size;
  // What the masters are rounded to, where weights are stored in a half type.
  std::string type;
};

// v = momentum * v + g; w = w - rate * v.
inline Call sgd(const Op& op) {
  Update update(op);
  float *velocity = op["momentum"].as<float>(), rate = static_cast<float>(op.number("learning_rate")), keep = static_cast<float>(op.number("momentum"));
  return [=] {
    for (int64_t i = 0; i < update.size; ++i) {
      velocity[i] = keep * velocity[i] + update.at(i);
      update.set(i, update.master[i] - rate * velocity[i]);
    }
  };
}

// Adam (Kingma and Ba, 2014) as torch has it; with decay, AdamW (Loshchilov and Hutter, 2017).
inline Call adam(const Op& op) {
  Update update(op);
  float *mean = op["momentum"].as<float>(), *square = op["second"].as<float>(), *steps = op["steps"].as<float>();
  double rate = op.number("learning_rate"), first = op.number("first"), second = op.number("second");
  float kept = static_cast<float>(1 - rate * op.number("decay")), epsilon = static_cast<float>(op.number("epsilon"));
  return [=] {
    double step = *steps += 1;
    float scale = static_cast<float>(rate / (1 - std::pow(first, step)));
    float root = static_cast<float>(std::sqrt(1 - std::pow(second, step)));
    float b1 = static_cast<float>(1 - first), b2 = static_cast<float>(second), rest = static_cast<float>(1 - second);
    for (int64_t i = 0; i < update.size; ++i) {
      float g = update.at(i);
      mean[i] += b1 * (g - mean[i]);
      square[i] = b2 * square[i] + rest * g * g;
      update.set(i, kept * update.master[i] - scale * mean[i] / (std::sqrt(square[i]) / root + epsilon));
    }
  };
}

}  // namespace tare::vendor

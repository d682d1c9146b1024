// Elementwise ops: sums, products, activations, biases, the update.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "channels.hpp"
#include "curves.hpp"
#include "scratch.hpp"

namespace tare::ops {

// y = activation(x + b + z), in place where x is y. There may be no b and no z.
template <class Activation>
void epilogue(const float* x, const float* b, const float* z, float* y, Channels shape, Activation activation) {
  shape.each([=](int64_t i, int64_t c) { y[i] = activation(x[i] + (b ? b[c] : 0) + (z ? z[i] : 0)); });
}

// From the argument of the activation, or, where that is null, from its result.
template <class Activation>
void activation_backward(const float* x, const float* y, const float* dy, float* dx, int64_t size, Activation activation) {
  for (int64_t i = 0; i < size; ++i)
    dx[i] = apply_derivative(dy[i], x ? activation.derivative_at_input(x[i]) : activation.derivative_at_output(y[i]));
}

inline void bias_gradient(Scratch& scratch, const float* dy, float* db, Channels shape) {
  double* sum = scratch.take<double>(shape.channels);
  std::fill_n(sum, shape.channels, 0.0);
  shape.each([=](int64_t i, int64_t c) { sum[c] += dy[i]; });
  for (int64_t c = 0; c < shape.channels; ++c) db[c] = static_cast<float>(sum[c]);
}

// y = x * z.
inline void multiply(const float* x, const float* z, float* y, int64_t size) {
  for (int64_t i = 0; i < size; ++i) y[i] = x[i] * z[i];
}

// One factor for each channel of each image.
inline void scale_channels(const float* x, const float* s, float* y, Channels shape, int64_t images) {
  shape.each_of(images, [=](int64_t i, int64_t at) { y[i] = x[i] * s[at]; });
}

inline void scale_channels_backward(Scratch& scratch, const float* x, const float* s, const float* dy, float* dx, float* ds,
                                    Channels shape, int64_t images) {
  int64_t factors = images * shape.channels;
  double* sum = scratch.take<double>(factors);
  std::fill_n(sum, factors, 0.0);
  shape.each_of(images, [=](int64_t i, int64_t at) {
    dx[i] = dy[i] * s[at];
    sum[at] += static_cast<double>(dy[i]) * x[i];
  });
  for (int64_t at = 0; at < factors; ++at) ds[at] = static_cast<float>(sum[at]);
}

// The flat buffers that an update reads and changes, in the same order.
struct Weights {
  const float* gradient;
  float* master;

  float gradient_at(int64_t i) const { return gradient[i]; }
  void set(int64_t i, float weight) const { master[i] = weight; }
};

// v = momentum * v + g; w = w - rate * v.
template <class AnyWeights>
void sgd(const AnyWeights& weights, float* velocity, int64_t size, float rate, float momentum) {
  for (int64_t i = 0; i < size; ++i) {
    velocity[i] = momentum * velocity[i] + weights.gradient_at(i);
    weights.set(i, weights.master[i] - rate * velocity[i]);
  }
}

struct Adam {
  double rate, first, second, epsilon, decay;
};

// Adam (Kingma and Ba, 2014) as torch has it; with decay, AdamW (Loshchilov and Hutter, 2017).
template <class AnyWeights>
void adam(const AnyWeights& weights, float* mean, float* square, float* steps, int64_t size, Adam settings) {
  double step = *steps += 1, rate = settings.rate, first = settings.first, second = settings.second;
  float kept = static_cast<float>(1 - rate * settings.decay), epsilon = static_cast<float>(settings.epsilon);
  float scale = static_cast<float>(rate / (1 - std::pow(first, step)));
  float root = static_cast<float>(std::sqrt(1 - std::pow(second, step)));
  float b1 = static_cast<float>(1 - first), b2 = static_cast<float>(second), rest = static_cast<float>(1 - second);
  for (int64_t i = 0; i < size; ++i) {
    float g = weights.gradient_at(i);
    mean[i] += b1 * (g - mean[i]);
    square[i] = b2 * square[i] + rest * g * g;
    weights.set(i, kept * weights.master[i] - scale * mean[i] / (std::sqrt(square[i]) / root + epsilon));
  }
}

}  // namespace tare::ops

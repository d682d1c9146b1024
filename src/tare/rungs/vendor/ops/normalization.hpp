// Batch norm, with the sum of a skip connection and the activation in the same call.
#pragma once

#include <algorithm>
#include <cmath>

#include "channels.hpp"
#include "curves.hpp"
#include "scratch.hpp"

namespace tare::ops {

// y = activation(x * scale + shift + z). There may be no z.
template <class Activation>
void affine(const float* x, const float* scale, const float* shift, const float* z, float* y, Channels shape,
            Activation activation) {
  shape.each([=](int64_t i, int64_t c) { y[i] = activation(x[i] * scale[c] + shift[c] + (z ? z[i] : 0)); });
}

// Updates the running mean and variance as torch does; the running variance is the unbiased one.
inline void batch_norm_statistics(Scratch& scratch, const float* x, float* mean, float* var, float* saved_mean,
                                  float* saved_invstd, Channels shape, double eps, double momentum) {
  double count = static_cast<double>(shape.outer * shape.inner);
  double *sum = scratch.take<double>(2 * shape.channels), *square = sum + shape.channels;
  std::fill_n(sum, 2 * shape.channels, 0.0);
  shape.each([=](int64_t i, int64_t c) { sum[c] += x[i]; });
  for (int64_t c = 0; c < shape.channels; ++c) sum[c] /= count;
  shape.each([=](int64_t i, int64_t c) { square[c] += (x[i] - sum[c]) * (x[i] - sum[c]); });
  for (int64_t c = 0; c < shape.channels; ++c) {
    saved_mean[c] = static_cast<float>(sum[c]);
    saved_invstd[c] = static_cast<float>(1 / std::sqrt(square[c] / count + eps));
    mean[c] = static_cast<float>((1 - momentum) * mean[c] + momentum * sum[c]);
    var[c] = static_cast<float>((1 - momentum) * var[c] + momentum * square[c] / std::max(count - 1, 1.0));
  }
}

// y = activation(normalised x * scale + shift + z). There may be no z.
template <class Activation>
void batch_norm(Scratch& scratch, const float* x, const float* scale, const float* shift, const float* z, float* y, float* mean,
                float* var, float* saved_mean, float* saved_invstd, Channels shape, double eps, double momentum,
                Activation activation) {
  batch_norm_statistics(scratch, x, mean, var, saved_mean, saved_invstd, shape, eps, momentum);
  const float *center = saved_mean, *invstd = saved_invstd;
  shape.each([=](int64_t i, int64_t c) {
    y[i] = activation((x[i] - center[c]) * invstd[c] * scale[c] + shift[c] + (z ? z[i] : 0));
  });
}

// The derivative of the activation comes from its result y where that is given, otherwise from its argument, which is
// computed again where `shift` is given. dy2 is a second part of the gradient, and dz gets that of the skip connection.
template <class Activation>
void batch_norm_backward(Scratch& scratch, const float* x, const float* dy, const float* dy2, const float* y, const float* scale,
                         const float* shift, const float* mean, const float* invstd, float* dx, float* dz, float* dscale,
                         float* dshift, Channels shape, Activation activation) {
  double count = static_cast<double>(shape.outer * shape.inner);
  double *total = scratch.take<double>(2 * shape.channels), *along = total + shape.channels;
  auto arriving = [=](int64_t i, int64_t c) {
    float g = dy[i] + (dy2 ? dy2[i] : 0.0f);
    if (y) return apply_derivative(g, activation.derivative_at_output(y[i]));
    return shift ? apply_derivative(g, activation.derivative_at_input((x[i] - mean[c]) * invstd[c] * scale[c] + shift[c])) : g;
  };
  std::fill_n(total, 2 * shape.channels, 0.0);
  shape.each([=](int64_t i, int64_t c) {
    float g = arriving(i, c);
    if (dz) dz[i] = g;
    total[c] += g;
    along[c] += g * (x[i] - mean[c]) * invstd[c];
  });
  for (int64_t c = 0; c < shape.channels; ++c) {
    dshift[c] = static_cast<float>(total[c]);
    dscale[c] = static_cast<float>(along[c]);
  }
  shape.each([=](int64_t i, int64_t c) {
    double normal = (x[i] - mean[c]) * invstd[c];
    dx[i] = static_cast<float>(scale[c] * invstd[c] * (arriving(i, c) - total[c] / count - normal * along[c] / count));
  });
}

}  // namespace tare::ops

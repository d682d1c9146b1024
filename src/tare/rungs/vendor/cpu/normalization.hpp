// Batch norm, with the sum of a skip connection and the activation in the same call.
#pragma once

#include <algorithm>
#include <cmath>

#include "../activation.hpp"
#include "channels.hpp"

namespace tare::vendor {

inline Call affine(const Op& op) {
  const float *x = floats(op, "x"), *scale = floats(op, "scale"), *shift = floats(op, "shift"), *z = floats(op, "z");
  float* y = op["y"].as<float>();
  Channels shape(op["y"]);
  return with_activation(op, [=](auto activation) -> Call {
    return [=] { shape.each([=](int64_t i, int64_t c) { y[i] = activation(x[i] * scale[c] + shift[c] + (z ? z[i] : 0)); }); };
  });
}

// Updates the running statistics as torch does; the running variance is the unbiased one.
inline Call batch_norm_statistics(const Op& op) {
  const float* x = floats(op, "x");
  float *mean = op["mean"].as<float>(), *var = op["var"].as<float>();
  float *saved_mean = op["saved_mean"].as<float>(), *saved_invstd = op["saved_invstd"].as<float>();
  double eps = op.number("eps"), momentum = op.number("momentum");
  Channels shape(op["x"]);
  auto sums = std::make_shared<std::vector<double>>(2 * shape.channels);
  return [=] {
    double count = static_cast<double>(shape.outer * shape.inner);
    double *sum = sums->data(), *square = sum + shape.channels;
    std::fill(sums->begin(), sums->end(), 0.0);
    shape.each([=](int64_t i, int64_t c) { sum[c] += x[i]; });
    for (int64_t c = 0; c < shape.channels; ++c) sum[c] /= count;
    shape.each([=](int64_t i, int64_t c) { square[c] += (x[i] - sum[c]) * (x[i] - sum[c]); });
    for (int64_t c = 0; c < shape.channels; ++c) {
      saved_mean[c] = static_cast<float>(sum[c]);
      saved_invstd[c] = static_cast<float>(1 / std::sqrt(square[c] / count + eps));
      mean[c] = static_cast<float>((1 - momentum) * mean[c] + momentum * sum[c]);
      var[c] = static_cast<float>((1 - momentum) * var[c] + momentum * square[c] / std::max(count - 1, 1.0));
    }
  };
}

inline Call batch_norm(const Op& op) {
  const float *x = floats(op, "x"), *scale = floats(op, "scale"), *shift = floats(op, "shift"), *z = floats(op, "z");
  const float *mean = floats(op, "saved_mean"), *invstd = floats(op, "saved_invstd");
  float* y = op["y"].as<float>();
  Channels shape(op["x"]);
  Call statistics = batch_norm_statistics(op);
  return with_activation(op, [=](auto activation) -> Call {
    return [=] {
      statistics();
      shape.each([=](int64_t i, int64_t c) {
        y[i] = activation((x[i] - mean[c]) * invstd[c] * scale[c] + shift[c] + (z ? z[i] : 0));
      });
    };
  });
}

// The derivative of the activation comes from its result where that is an input, otherwise from its argument, which is
// computed again.
inline Call batch_norm_backward(const Op& op) {
  const float *x = floats(op, "x"), *dy = floats(op, "dy"), *dy2 = floats(op, "dy2"), *y = floats(op, "y");
  const float *scale = floats(op, "scale"), *shift = floats(op, "shift");
  const float *mean = floats(op, "saved_mean"), *invstd = floats(op, "saved_invstd");
  float *dx = op["dx"].as<float>(), *dscale = op["dscale"].as<float>(), *dshift = op["dshift"].as<float>();
  float* dz = op.find("dz") ? op["dz"].as<float>() : nullptr;
  Channels shape(op["x"]);
  auto sums = std::make_shared<std::vector<double>>(2 * shape.channels);
  return with_activation(op, [=](auto activation) -> Call {
    return [=] {
      double count = static_cast<double>(shape.outer * shape.inner);
      double *total = sums->data(), *along = total + shape.channels;
      auto arriving = [=](int64_t i, int64_t c) {
        float g = dy[i] + (dy2 ? dy2[i] : 0.0f);
        if (y) return apply_derivative(g, activation.derivative_at_output(y[i]));
        return shift ? apply_derivative(g, activation.derivative_at_input((x[i] - mean[c]) * invstd[c] * scale[c] + shift[c])) : g;
      };
      std::fill(sums->begin(), sums->end(), 0.0);
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
    };
  });
}

}  // namespace tare::vendor

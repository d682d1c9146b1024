// Activations and their derivatives: the same arithmetic on a CPU and in a kernel.
#pragma once

#include <cmath>
#include <limits>

#ifdef __CUDACC__
#define TARE_HOST_DEVICE __host__ __device__
#else
#define TARE_HOST_DEVICE
#endif

namespace tare::ops {

// A gradient times a derivative. Zero where the derivative is zero, even if the gradient is infinite or NaN.
TARE_HOST_DEVICE inline float apply_derivative(float gradient, float slope) { return slope == 0 ? 0.0f : gradient * slope; }

// Clamping between two bounds: no activation, ReLU and ReLU6. A NaN stays a NaN and lets gradients pass. An absent bound is
// NaN, which no number reaches.
struct Clamp {
  float low = std::numeric_limits<float>::quiet_NaN(), high = std::numeric_limits<float>::quiet_NaN();

  TARE_HOST_DEVICE float operator()(float x) const { return x < low ? low : x > high ? high : x; }
  TARE_HOST_DEVICE float derivative_at_input(float x) const { return x <= low || x >= high ? 0.0f : 1.0f; }
  TARE_HOST_DEVICE float derivative_at_output(float y) const { return derivative_at_input(y); }
};

constexpr Clamp no_activation{}, relu{0}, relu6{0, 6};

// All other activations. `derivative_at_input` takes the argument of the activation; `derivative_at_output` its result,
// where that determines the derivative.
struct Curve {
  enum Kind { leaky_relu, hardsigmoid, sigmoid, tanh, hardswish, silu, gelu, gelu_tanh };
  Kind kind;
  float parameter = 0;

  TARE_HOST_DEVICE float operator()(float x) const {
    switch (kind) {
      case leaky_relu: return x > 0 ? x : x * parameter;
      case hardsigmoid: return gate(x);
      case sigmoid: return logistic(x);
      case tanh: return ::tanhf(x);
      case hardswish: return x * gate(x);
      case silu: return x * logistic(x);
      case gelu: return 0.5f * x * (1 + ::erff(x * half_root));
      case gelu_tanh: return 0.5f * x * (1 + ::tanhf(inner(x)));
    }
    return x;
  }

  TARE_HOST_DEVICE float derivative_at_input(float x) const {
    switch (kind) {
      case hardswish: return x <= -3 ? 0.0f : x < 3 ? x / 3 + 0.5f : 1.0f;
      case silu: {
        float s = logistic(x);
        return s * (1 + x * (1 - s));
      }
      case gelu: return 0.5f * (1 + ::erff(x * half_root)) + x * density * ::expf(-0.5f * x * x);
      case gelu_tanh: {
        float t = ::tanhf(inner(x));
        return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * root * (1 + 3 * cubic * x * x);
      }
      default: return derivative_at_output((*this)(x));
    }
  }

  TARE_HOST_DEVICE float derivative_at_output(float y) const {
    switch (kind) {
      case leaky_relu: return y > 0 ? 1.0f : parameter;
      case hardsigmoid: return y > 0 && y < 1 ? 1.0f / 6 : 0.0f;
      case sigmoid: return y * (1 - y);
      case tanh: return 1 - y * y;
      default: return 1;
    }
  }

 private:
  // sqrt(1/2), sqrt(2/pi), 1/sqrt(2 pi) and the cubic term of GELU's approximation (Hendrycks and Gimpel, 2016).
  static constexpr float half_root = 0.70710678f, root = 0.79788456f, density = 0.39894228f, cubic = 0.044715f;
  TARE_HOST_DEVICE static float gate(float x) { return Clamp{0, 6}(x + 3) / 6; }
  TARE_HOST_DEVICE static float logistic(float x) { return 1 / (1 + ::expf(-x)); }
  TARE_HOST_DEVICE static float inner(float x) { return root * (x + cubic * x * x * x); }
};

}  // namespace tare::ops

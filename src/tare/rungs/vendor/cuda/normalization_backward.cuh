// The gradients of batch norm, with those of the sum and the activation in the same two passes over memory; gradients of
// biases.
#pragma once

#include "normalization.cuh"

namespace tare::vendor {

// What the derivative of the activation is computed from: there is no activation; its result; its argument, computed again
// from x.
enum class DerivativeFrom { none, output, input };

// The gradient of the batch norm's result before the activation. Only with `output` can it have two summands.
template <class T, int N, class A, DerivativeFrom S>
struct OutputGradient {
  struct Two {
    Pack<T, N> x, dy;
  };
  struct Four {
    Pack<T, N> x, dy, dy2, y;
  };
  using Loaded = std::conditional_t<S == DerivativeFrom::output, Four, Two>;
  // As many blocks as have enough registers for the loaded data.
  static constexpr int blocks = S == DerivativeFrom::none ? 3 : 2;
  const T *x, *dy, *dy2, *y;
  ScaleShift<T, N> scale_shift;
  A activation;

  __device__ void begin(int c) {
    if constexpr (S == DerivativeFrom::input) scale_shift.begin(c);
  }
  __device__ void read(int64_t at, Loaded& loaded) const {
    loaded.x = load_pack<T, N>(x + at);
    loaded.dy = load_pack<T, N>(dy + at);
    if constexpr (S == DerivativeFrom::output) {
      if (dy2) loaded.dy2 = load_pack<T, N>(dy2 + at);
      loaded.y = load_pack<T, N>(y + at);
    }
  }
  __device__ void unpack_gradient(const Loaded& loaded, float (&values)[N], float (&g)[N]) const {
    unpack<T, N>(values, loaded.x);
    unpack<T, N>(g, loaded.dy);
    if constexpr (S == DerivativeFrom::output) {
      float more[N];
      if (dy2) {
        unpack<T, N>(more, loaded.dy2);
#pragma unroll
        for (int i = 0; i < N; ++i) g[i] += more[i];
      }
      unpack<T, N>(more, loaded.y);
#pragma unroll
      for (int i = 0; i < N; ++i) g[i] = apply_derivative(g[i], activation.derivative_at_output(more[i]));
    }
    if constexpr (S == DerivativeFrom::input)
#pragma unroll
      for (int i = 0; i < N; ++i) g[i] = apply_derivative(g[i], activation.derivative_at_input(scale_shift(values[i], i)));
  }
};

template <class T, int N, class Gradient>
struct GradientSums {
  static constexpr int ahead = 2, blocks = Gradient::blocks;
  using Loaded = typename Gradient::Loaded;
  Gradient output_gradient;
  const float *mean, *invstd;
  T* dz;
  float *dscale, *dshift;
  float middle[N];

  __device__ void begin(int c) {
    output_gradient.begin(c);
    load<float, N>(middle, mean + c);
  }
  __device__ void read(int64_t at, Loaded& loaded) const { output_gradient.read(at, loaded); }
  __device__ void operator()(int64_t at, const Loaded& loaded, float (&first)[N], float (&second)[N]) const {
    float values[N], g[N];
    output_gradient.unpack_gradient(loaded, values, g);
    if (dz) store<T, N>(dz + at, g);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      first[i] += g[i];
      second[i] += g[i] * (values[i] - middle[i]);
    }
  }
  __device__ void end(int c, double first, double second) const {
    dshift[c] = static_cast<float>(first);
    dscale[c] = static_cast<float>(second * invstd[c]);
  }
};

template <class T, int N, class Gradient>
struct InputGradient {
  static constexpr int ahead = 2, blocks = Gradient::blocks;
  using Loaded = typename Gradient::Loaded;
  Gradient output_gradient;
  const float *scale, *mean, *invstd, *dscale, *dshift;
  T* dx;
  float count;
  // dx = factor * (g - level - (x - mean) * slope), written as factor * g + slope * x + offset to save registers.
  float factor[N], slope[N], offset[N];

  __device__ void begin(int c) {
    output_gradient.begin(c);
    float inverse[N], middle[N];
    load<float, N>(inverse, invstd + c);
    load<float, N>(factor, scale + c);
    load<float, N>(offset, dshift + c);
    load<float, N>(slope, dscale + c);
    load<float, N>(middle, mean + c);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      factor[i] *= inverse[i];
      slope[i] *= -factor[i] * inverse[i] / count;
      offset[i] = -factor[i] * offset[i] / count - slope[i] * middle[i];
    }
  }
  __device__ void read(int64_t at, Loaded& loaded) const { output_gradient.read(at, loaded); }
  __device__ void operator()(int64_t at, const Loaded& loaded) const {
    float values[N], g[N];
    output_gradient.unpack_gradient(loaded, values, g);
#pragma unroll
    for (int i = 0; i < N; ++i) g[i] = fmaf(factor[i], g[i], fmaf(slope[i], values[i], offset[i]));
    store<T, N>(dx + at, g);
  }
};

template <class T, int N>
struct BiasSum {
  static constexpr int ahead = 4, blocks = 4;
  using Loaded = Pack<T, N>;
  const T* dy;
  T* db;

  __device__ void begin(int) {}
  __device__ void read(int64_t at, Loaded& loaded) const { loaded = load_pack<T, N>(dy + at); }
  __device__ void operator()(int64_t, const Loaded& loaded, float (&first)[N], float (&)[N]) const {
    float g[N];
    unpack<T, N>(g, loaded);
#pragma unroll
    for (int i = 0; i < N; ++i) first[i] += g[i];
  }
  __device__ void end(int c, double first, double) const { db[c] = from_float<T>(static_cast<float>(first)); }
};

template <class T, int N, class Gradient>
Call gradient_sums(Device& device, Partials& partials, const Op& op, const ChannelLayout& layout, const Gradient& output_gradient) {
  GradientSums<T, N, Gradient> body{output_gradient,          op["saved_mean"].as<float>(), op["saved_invstd"].as<float>(),
                                   find<T>(op, "dz"), op["dscale"].as<float>(),     op["dshift"].as<float>()};
  return make_reduction<N>(device, partials, op, layout, body);
}

template <class T, int N, class Gradient>
Call input_gradient(Device& device, const Op& op, const ChannelLayout& layout, const Gradient& output_gradient) {
  InputGradient<T, N, Gradient> body{output_gradient, op["scale"].as<float>(), op["saved_mean"].as<float>(), op["saved_invstd"].as<float>(),
                                    op["dscale"].as<float>(), op["dshift"].as<float>(), op["dx"].as<T>(), static_cast<float>(layout.count())};
  return make_visit<N>(device, op, "gradient", layout, body);
}

template <class T>
void batch_norm_backward(Device& device, Partials& partials, const Op& op, std::vector<Call>& calls) {
  ChannelLayout layout(op["x"]);
  const T *x = op["x"].as<T>(), *dy = op["dy"].as<T>();
  Call last = vectorize_channels<T>(layout, [&](auto width) -> Call {
    constexpr int N = width();
    if (op.activation().empty()) {
      OutputGradient<T, N, Clamp, DerivativeFrom::none> output_gradient{x, dy};
      calls.push_back(gradient_sums<T, N>(device, partials, op, layout, output_gradient));
      return input_gradient<T, N>(device, op, layout, output_gradient);
    }
    return with_activation(op, [&](auto activation) -> Call {
      constexpr int M = decltype(width)::value;
      using A = decltype(activation);
      if (!op.find("y")) {
        OutputGradient<T, M, A, DerivativeFrom::input> output_gradient{x, dy, nullptr, nullptr, scale_shift_of<T, M>(op), activation};
        calls.push_back(gradient_sums<T, M>(device, partials, op, layout, output_gradient));
        return input_gradient<T, M>(device, op, layout, output_gradient);
      }
      OutputGradient<T, M, A, DerivativeFrom::output> output_gradient{x, dy, find<T>(op, "dy2"), op["y"].as<T>(), {}, activation};
      calls.push_back(gradient_sums<T, M>(device, partials, op, layout, output_gradient));
      // The first pass has written the summed gradient for the skip connection, so the second pass reads that.
      return input_gradient<T, M>(device, op, layout, OutputGradient<T, M, Clamp, DerivativeFrom::none>{x, op["dz"].as<T>()});
    });
  });
  calls.push_back(std::move(last));
}

template <class T>
Call bias_gradient(Device& device, Partials& partials, const Op& op) {
  ChannelLayout layout(op["dy"]);
  return vectorize_channels<T>(layout, [&](auto width) {
    return make_reduction<width()>(device, partials, op, layout, BiasSum<T, width()>{op["dy"].as<T>(), op["db"].as<T>()});
  });
}

}  // namespace tare::vendor

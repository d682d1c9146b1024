// Elementwise kernels: casts, products, gradients of activations, the update.
#pragma once

#include "device.cuh"

namespace tare::vendor {

template <class Body>
__global__ void each(int64_t count, Body body) {
  int64_t lanes = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += lanes) body(i);
}

template <class Body>
Call for_each(Device& device, int64_t count, Body body) {
  unsigned blocks = static_cast<unsigned>(std::clamp<int64_t>((count + 255) / 256, 1, 32ll * device.processors));
  return [=, stream = device.stream] { start(each<Body>, blocks, 256, stream, count, body); };
}

// Calls `make` with the number of elements per thread: 16 bytes, if all the given sizes are multiples of that, otherwise
// one.
template <class T, class Make>
Call vectorize(std::initializer_list<int64_t> numbers, Make make) {
  constexpr int wide = 16 / sizeof(T);
  for (int64_t n : numbers)
    if (n % wide) return make(std::integral_constant<int, 1>());
  return make(std::integral_constant<int, wide>());
}

template <class T>
Call cast(Device& device, const Op& op) {
  const float* x = op["x"].as<float>();
  T* y = op["y"].as<T>();
  return for_each(device, op["x"].size, [=] __device__(int64_t i) { y[i] = from_float<T>(x[i]); });
}

// From the argument of the activation, or from its result.
template <class T, int N, class A>
struct ActivationBackward {
  const T *x, *y, *dy;
  T* dx;
  A activation;

  __device__ void operator()(int64_t i) const {
    float g[N], values[N];
    load<T, N>(g, dy + i * N);
    load<T, N>(values, (x ? x : y) + i * N);
#pragma unroll
    for (int k = 0; k < N; ++k) g[k] = apply_derivative(g[k], x ? activation.derivative_at_input(values[k]) : activation.derivative_at_output(values[k]));
    store<T, N>(dx + i * N, g);
  }
};

template <class T>
Call activation_backward(Device& device, const Op& op) {
  int64_t size = op["dx"].size;
  return vectorize<T>({size}, [&](auto width) {
    return with_activation(op, [&](auto activation) {
      constexpr int N = decltype(width)::value;
      ActivationBackward<T, N, decltype(activation)> body{find<T>(op, "x"), find<T>(op, "y"), op["dy"].as<T>(), op["dx"].as<T>(), activation};
      return for_each(device, size / N, body);
    });
  });
}

// y = x * z.
template <class T, int N>
struct Multiply {
  const T *x, *z;
  T* y;

  __device__ void operator()(int64_t i) const {
    float a[N], b[N];
    load<T, N>(a, x + i * N);
    load<T, N>(b, z + i * N);
#pragma unroll
    for (int k = 0; k < N; ++k) a[k] *= b[k];
    store<T, N>(y + i * N, a);
  }
};

template <class T>
Call multiply(Device& device, const Op& op) {
  int64_t size = op["y"].size;
  return vectorize<T>({size}, [&](auto width) {
    constexpr int N = width();
    return for_each(device, size / N, Multiply<T, N>{op["x"].as<T>(), op["z"].as<T>(), op["y"].as<T>()});
  });
}

// v = momentum * v + g; w = w - rate * v, for all weights in one call, those with half gradients first. Weights are aligned
// to 64 elements (lowering/memory.py), so that four neighbours have the same type.
template <class T>
struct Sgd {
  static constexpr int pack = 4;
  const float* gradient;
  const T* half;
  T* weights;
  int64_t halves;
  float *master, *velocity, rate, keep;
  bool stored_rounded;

  __device__ void operator()(int64_t number_of_pack) const {
    int64_t i = number_of_pack * pack;
    float g[pack], v[pack], w[pack];
    if (i < halves) load<T, pack>(g, half + i);
    else load<float, pack>(g, gradient + (i - halves));
    load<float, pack>(v, velocity + i);
    load<float, pack>(w, master + i);
#pragma unroll
    for (int k = 0; k < pack; ++k) {
      v[k] = keep * v[k] + g[k];
      w[k] -= rate * v[k];
      if (stored_rounded) w[k] = to_float(from_float<T>(w[k]));
    }
    store<float, pack>(velocity + i, v);
    store<float, pack>(master + i, w);
    if (i < halves) store<T, pack>(weights + i, w);
  }
};

template <class T>
Call sgd(Device& device, const Op& op) {
  T* weights = find<T>(op, "weights");
  int64_t halves = weights ? op["weights"].size : 0, size = op["master"].size;
  if (size % Sgd<T>::pack || halves % Sgd<T>::pack) throw std::runtime_error("the flat buffers of an update do not end at a multiple of four");
  Sgd<T> body{op["gradient"].as<float>(), find<T>(op, "gradient_half"), weights, halves, op["master"].as<float>(), op["momentum"].as<float>(),
              static_cast<float>(op.number("learning_rate")), static_cast<float>(op.number("momentum")), op.attributes["round"].boolean};
  return for_each(device, size / Sgd<T>::pack, body);
}

}  // namespace tare::vendor

// Batch norm in training, with the sum of a skip connection and the activation in the same pass over memory; affine maps.
#pragma once

#include "reduction.cuh"

namespace tare::vendor {

// Sums of x and x squared, relative to the channel's first element, so that a large mean costs no precision.
template <class T, int N>
struct Moments {
  static constexpr int ahead = 4, blocks = 3;
  using Loaded = Pack<T, N>;
  const T* x;
  float *mean, *var, *saved_mean, *saved_invstd;
  float eps, momentum;
  double count;
  ChannelLayout layout;
  float base[N];

  __device__ void begin(int c) { load<T, N>(base, x + layout.at(0, c)); }
  __device__ void read(int64_t at, Loaded& loaded) const { loaded = load_pack<T, N>(x + at); }
  __device__ void operator()(int64_t, const Loaded& loaded, float (&first)[N], float (&second)[N]) const {
    float values[N];
    unpack<T, N>(values, loaded);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      float off = values[i] - base[i];
      first[i] += off;
      second[i] += off * off;
    }
  }
  __device__ void end(int c, double first, double second) const {
    double shift = first / count, middle = to_float(x[layout.at(0, c)]) + shift;
    double variance = fmax(second / count - shift * shift, 0.0);
    saved_mean[c] = static_cast<float>(middle);
    saved_invstd[c] = static_cast<float>(1.0 / sqrt(variance + eps));
    mean[c] = static_cast<float>((1.0 - momentum) * mean[c] + momentum * middle);
    // The running variance is the unbiased one, as in torch.
    var[c] = static_cast<float>((1.0 - momentum) * var[c] + momentum * variance * count / fmax(count - 1, 1.0));
  }
};

// A channel's factor and offset, from up to four tables and a bias.
template <class T, int N>
struct ScaleShift {
  const float *scale, *shift, *mean, *invstd;
  const T* bias;
  float factor[N], offset[N];

  __device__ void begin(int c) {
    float table[N];
#pragma unroll
    for (int i = 0; i < N; ++i) factor[i] = 1, offset[i] = 0;
    if (scale) load<float, N>(factor, scale + c);
    if (shift) load<float, N>(offset, shift + c);
    if (invstd) {
      load<float, N>(table, invstd + c);
#pragma unroll
      for (int i = 0; i < N; ++i) factor[i] *= table[i];
    }
    if (mean) {
      load<float, N>(table, mean + c);
#pragma unroll
      for (int i = 0; i < N; ++i) offset[i] -= table[i] * factor[i];
    }
    if (bias) {
      load<T, N>(table, bias + c);
#pragma unroll
      for (int i = 0; i < N; ++i) offset[i] += table[i];
    }
  }
  __device__ float operator()(float x, int i) const { return fmaf(x, factor[i], offset[i]); }
};

// y = activation(scale_shift(x) + z).
template <class T, int N, class A>
struct Affine {
  static constexpr int ahead = 2, blocks = 3;
  struct Loaded {
    Pack<T, N> x, z;
  };
  const T *x, *z;
  T* y;
  ScaleShift<T, N> scale_shift;
  A activation;

  __device__ void begin(int c) { scale_shift.begin(c); }
  __device__ void read(int64_t at, Loaded& loaded) const {
    loaded.x = load_pack<T, N>(x + at);
    if (z) loaded.z = load_pack<T, N>(z + at);
  }
  __device__ void operator()(int64_t at, const Loaded& loaded) const {
    float values[N], skip[N] = {};
    unpack<T, N>(values, loaded.x);
    if (z) unpack<T, N>(skip, loaded.z);
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] = activation(scale_shift(values[i], i) + skip[i]);
    store<T, N>(y + at, values);
  }
};

template <class T, int N>
ScaleShift<T, N> scale_shift_of(const Op& op) {
  return {find<float>(op, "scale"), find<float>(op, "shift"), find<float>(op, "saved_mean"), find<float>(op, "saved_invstd"), find<T>(op, "b")};
}

// y = activation(scale_shift(x) + z): the part of an op that the library's call did not do, a batch norm with known
// statistics, or an affine map.
template <class T>
Call epilogue(Device& device, const Op& op, const T* x, bool with_bias = true) {
  ChannelLayout layout(op["y"]);
  return vectorize_channels<T>(layout, [&](auto width) {
    return with_activation(op, [&](auto activation) {
      constexpr int N = decltype(width)::value;
      ScaleShift<T, N> scale_shift = scale_shift_of<T, N>(op);
      if (!with_bias) scale_shift.bias = nullptr;
      return make_visit<N>(device, op, "epilogue", layout, Affine<T, N, decltype(activation)>{x, find<T>(op, "z"), op["y"].as<T>(), scale_shift, activation});
    });
  });
}

template <class T>
void batch_norm(Device& device, Partials& partials, const Op& op, std::vector<Call>& calls) {
  ChannelLayout layout(op["x"]);
  calls.push_back(vectorize_channels<T>(layout, [&](auto width) {
    constexpr int N = width();
    Moments<T, N> body{op["x"].as<T>(), op["mean"].as<float>(), op["var"].as<float>(), op["saved_mean"].as<float>(),
                       op["saved_invstd"].as<float>(), static_cast<float>(op.number("eps")),
                       static_cast<float>(op.number("momentum")), static_cast<double>(layout.count()), layout};
    return make_reduction<N>(device, partials, op, layout, body);
  }));
  calls.push_back(epilogue<T>(device, op, op["x"].as<T>()));
}

}  // namespace tare::vendor

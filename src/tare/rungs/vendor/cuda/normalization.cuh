// Batch norm in training, with the sum of a skip and the activation in the same pass over memory; affine maps.
#pragma once

#include "reduction.cuh"

namespace tare::vendor {

// Sums of x and of its square, both less the channel's first number: no digits are lost where the mean is large.
template <class T, int N>
struct Moments {
  static constexpr int ahead = 4, blocks = 3;
  using Kept = Pack<T, N>;
  const T* x;
  float *mean, *var, *saved_mean, *saved_invstd;
  float eps, momentum;
  double count;
  Walk walk;
  float base[N];

  __device__ void begin(int c) { load<T, N>(base, x + walk.at(0, c)); }
  __device__ void read(int64_t at, Kept& kept) const { kept = fetch<T, N>(x + at); }
  __device__ void operator()(int64_t, const Kept& kept, float (&first)[N], float (&second)[N]) const {
    float values[N];
    spread<T, N>(values, kept);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      float off = values[i] - base[i];
      first[i] += off;
      second[i] += off * off;
    }
  }
  __device__ void end(int c, double first, double second) const {
    double shift = first / count, middle = number(x[walk.at(0, c)]) + shift;
    double spread = fmax(second / count - shift * shift, 0.0);
    saved_mean[c] = static_cast<float>(middle);
    saved_invstd[c] = static_cast<float>(1.0 / sqrt(spread + eps));
    mean[c] = static_cast<float>((1.0 - momentum) * mean[c] + momentum * middle);
    // The running variance is the unbiased one, as in torch.
    var[c] = static_cast<float>((1.0 - momentum) * var[c] + momentum * spread * count / fmax(count - 1, 1.0));
  }
};

// A channel's factor and offset, from up to four tables and a bias.
template <class T, int N>
struct Line {
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

// y = activation(line(x) + z).
template <class T, int N, class A>
struct Affine {
  static constexpr int ahead = 2, blocks = 3;
  struct Kept {
    Pack<T, N> x, z;
  };
  const T *x, *z;
  T* y;
  Line<T, N> line;
  A activation;

  __device__ void begin(int c) { line.begin(c); }
  __device__ void read(int64_t at, Kept& kept) const {
    kept.x = fetch<T, N>(x + at);
    if (z) kept.z = fetch<T, N>(z + at);
  }
  __device__ void operator()(int64_t at, const Kept& kept) const {
    float values[N], skip[N] = {};
    spread<T, N>(values, kept.x);
    if (z) spread<T, N>(skip, kept.z);
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] = activation(line(values[i], i) + skip[i]);
    store<T, N>(y + at, values);
  }
};

template <class T, int N>
Line<T, N> line_of(const Op& op) {
  return {find<float>(op, "scale"), find<float>(op, "shift"), find<float>(op, "saved_mean"), find<float>(op, "saved_invstd"), find<T>(op, "b")};
}

// y = activation(line(x) + z): what a library's call did not do itself, a batch norm with its statistics, an affine map.
template <class T>
Call epilogue(Device& device, const Op& op, const T* x, bool with_bias = true) {
  Walk walk(op["y"]);
  return packed<T>(walk, [&](auto width) {
    return activated(op, [&](auto activation) {
      constexpr int N = decltype(width)::value;
      Line<T, N> line = line_of<T, N>(op);
      if (!with_bias) line.bias = nullptr;
      return visiting<N>(device, op, "epilogue", walk, Affine<T, N, decltype(activation)>{x, find<T>(op, "z"), op["y"].as<T>(), line, activation});
    });
  });
}

template <class T>
void batch_norm(Device& device, Partials& partials, const Op& op, std::vector<Call>& calls) {
  Walk walk(op["x"]);
  calls.push_back(packed<T>(walk, [&](auto width) {
    constexpr int N = width();
    Moments<T, N> body{op["x"].as<T>(), op["mean"].as<float>(), op["var"].as<float>(), op["saved_mean"].as<float>(),
                       op["saved_invstd"].as<float>(), static_cast<float>(op.number("eps")),
                       static_cast<float>(op.number("momentum")), static_cast<double>(walk.count()), walk};
    return reducing<N>(device, partials, op, walk, body);
  }));
  calls.push_back(epilogue<T>(device, op, op["x"].as<T>()));
}

}  // namespace tare::vendor

// Batch norm in training, with the sum of a skip and the activation in the same pass over memory; biases; affine maps.
#pragma once

#include "channels.cuh"

namespace tare::vendor {

// Sums of x and of its square, both less the channel's first number: no digits are lost where the mean is large.
template <class T, int N>
struct Moments {
  const T* x;
  float *mean, *var, *saved_mean, *saved_invstd;
  float eps, momentum;
  double count;
  Walk walk;
  float base[N];

  __device__ void begin(int c) { load<T, N>(base, x + walk.at(0, c)); }
  __device__ void operator()(int64_t at, float (&first)[N], float (&second)[N]) const {
    float values[N];
    load<T, N>(values, x + at);
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

// y = activation(x * factor + offset + z), factor and offset of the channel from up to four tables.
template <class T, int N>
struct Affine {
  const T *x, *z;
  const float *scale, *shift, *mean, *invstd;
  const T* bias;
  T* y;
  int kind;
  float factor[N], offset[N];

  __device__ void begin(int c) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      factor[i] = (scale ? scale[c + i] : 1.0f) * (invstd ? invstd[c + i] : 1.0f);
      offset[i] = (shift ? shift[c + i] : 0.0f) + (bias ? number(bias[c + i]) : 0.0f) - (mean ? mean[c + i] * factor[i] : 0.0f);
    }
  }
  __device__ void operator()(int64_t at) const {
    float values[N], skip[N] = {};
    load<T, N>(values, x + at);
    if (z) load<T, N>(skip, z + at);
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] = activate(values[i] * factor[i] + offset[i] + skip[i], kind);
    store<T, N>(y + at, values);
  }
};

// The gradient that arrives behind the activation, from one or two sides.
template <class T, int N>
struct Arriving {
  const T *dy, *dy2, *y;
  int kind;

  __device__ void read(int64_t at, float (&g)[N]) const {
    load<T, N>(g, dy + at);
    if (dy2) {
      float more[N];
      load<T, N>(more, dy2 + at);
#pragma unroll
      for (int i = 0; i < N; ++i) g[i] += more[i];
    }
    if (y) {
      float result[N];
      load<T, N>(result, y + at);
#pragma unroll
      for (int i = 0; i < N; ++i) g[i] = passes(result[i], kind) ? g[i] : 0.0f;
    }
  }
};

template <class T, int N>
struct GradientSums {
  Arriving<T, N> arriving;
  const T* x;
  const float *mean, *invstd;
  T* dz;
  float *dscale, *dshift;
  float middle[N], inverse[N];

  __device__ void begin(int c) {
#pragma unroll
    for (int i = 0; i < N; ++i) middle[i] = mean[c + i], inverse[i] = invstd[c + i];
  }
  __device__ void operator()(int64_t at, float (&first)[N], float (&second)[N]) const {
    float g[N], values[N];
    arriving.read(at, g);
    load<T, N>(values, x + at);
    if (dz) store<T, N>(dz + at, g);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      first[i] += g[i];
      second[i] += g[i] * (values[i] - middle[i]) * inverse[i];
    }
  }
  __device__ void end(int c, double first, double second) const {
    dshift[c] = static_cast<float>(first);
    dscale[c] = static_cast<float>(second);
  }
};

template <class T, int N>
struct InputGradient {
  Arriving<T, N> arriving;
  const T* x;
  const float *scale, *mean, *invstd, *dscale, *dshift;
  T* dx;
  float count;
  float factor[N], level[N], slope[N], middle[N];

  __device__ void begin(int c) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      factor[i] = scale[c + i] * invstd[c + i];
      level[i] = dshift[c + i] / count;
      slope[i] = dscale[c + i] * invstd[c + i] / count;
      middle[i] = mean[c + i];
    }
  }
  __device__ void operator()(int64_t at) const {
    float g[N], values[N];
    arriving.read(at, g);
    load<T, N>(values, x + at);
#pragma unroll
    for (int i = 0; i < N; ++i) g[i] = factor[i] * (g[i] - level[i] - (values[i] - middle[i]) * slope[i]);
    store<T, N>(dx + at, g);
  }
};

template <class T, int N>
struct BiasSum {
  const T* dy;
  T* db;

  __device__ void begin(int) {}
  __device__ void operator()(int64_t at, float (&first)[N], float (&)[N]) const {
    float g[N];
    load<T, N>(g, dy + at);
#pragma unroll
    for (int i = 0; i < N; ++i) first[i] += g[i];
  }
  __device__ void end(int c, double first, double) const { db[c] = rounded<T>(static_cast<float>(first)); }
};

template <class T>
void batch_norm(Device& device, Partials& partials, const Op& op, std::vector<Call>& calls) {
  Walk walk(op["x"]);
  calls.push_back(packed<T>(walk, [&](auto width) {
    constexpr int N = width();
    Moments<T, N> body{op["x"].as<T>(), op["mean"].as<float>(), op["var"].as<float>(), op["saved_mean"].as<float>(),
                       op["saved_invstd"].as<float>(), static_cast<float>(op.number("eps")),
                       static_cast<float>(op.number("momentum")), static_cast<double>(walk.count()), walk};
    return reducing<N>(device, partials, walk, body);
  }));
  calls.push_back(packed<T>(walk, [&](auto width) {
    constexpr int N = width();
    Affine<T, N> body{op["x"].as<T>(), find<T>(op, "z"), op["scale"].as<float>(), op["shift"].as<float>(),
                      op["saved_mean"].as<float>(), op["saved_invstd"].as<float>(), nullptr, op["y"].as<T>(), activation_kind(op)};
    return visiting<N>(device, walk, body);
  }));
}

template <class T>
void batch_norm_backward(Device& device, Partials& partials, const Op& op, std::vector<Call>& calls) {
  Walk walk(op["x"]);
  T* dz = find<T>(op, "dz");
  calls.push_back(packed<T>(walk, [&](auto width) {
    constexpr int N = width();
    GradientSums<T, N> body{{op["dy"].as<T>(), find<T>(op, "dy2"), find<T>(op, "y"), activation_kind(op)},
                            op["x"].as<T>(), op["saved_mean"].as<float>(), op["saved_invstd"].as<float>(), dz,
                            op["dscale"].as<float>(), op["dshift"].as<float>()};
    return reducing<N>(device, partials, walk, body);
  }));
  calls.push_back(packed<T>(walk, [&](auto width) {
    constexpr int N = width();
    // What the first pass has summed and written for the skip need not be gathered from three tensors again.
    Arriving<T, N> arriving{dz ? dz : op["dy"].as<T>(), dz ? nullptr : find<T>(op, "dy2"), dz ? nullptr : find<T>(op, "y"),
                            activation_kind(op)};
    InputGradient<T, N> body{arriving, op["x"].as<T>(), op["scale"].as<float>(), op["saved_mean"].as<float>(),
                             op["saved_invstd"].as<float>(), op["dscale"].as<float>(), op["dshift"].as<float>(),
                             op["dx"].as<T>(), static_cast<float>(walk.count())};
    return visiting<N>(device, walk, body);
  }));
}

template <class T>
Call bias_gradient(Device& device, Partials& partials, const Op& op) {
  Walk walk(op["dy"]);
  return packed<T>(walk, [&](auto width) {
    return reducing<width()>(device, partials, walk, BiasSum<T, width()>{op["dy"].as<T>(), op["db"].as<T>()});
  });
}

// y = activation(x + b + z): what a library's call did not do itself. `affine` adds a scale.
template <class T>
Call epilogue(Device& device, const Op& op, const T* x) {
  Walk walk(op["y"]);
  return packed<T>(walk, [&](auto width) {
    constexpr int N = width();
    Affine<T, N> body{x, find<T>(op, "z"), find<float>(op, "scale"), find<float>(op, "shift"), nullptr, nullptr,
                      find<T>(op, "b"), op["y"].as<T>(), activation_kind(op)};
    return visiting<N>(device, walk, body);
  });
}

}  // namespace tare::vendor

// The gradients of batch norm, with those of the sum and the activation in the same two passes over memory; of biases.
#pragma once

#include "normalization.cuh"

namespace tare::vendor {

// What tells the slope of the activation: there is none; its result; what came before it, the line through x drawn again.
enum class Slope { none, result, before };

// The gradient that arrives behind the activation. Only where the result tells the slope does it come from two sides.
template <class T, int N, class A, Slope S>
struct Arriving {
  struct Two {
    Pack<T, N> x, dy;
  };
  struct Four {
    Pack<T, N> x, dy, dy2, y;
  };
  using Kept = std::conditional_t<S == Slope::result, Four, Two>;
  // As many as have room for all that is kept in registers.
  static constexpr int blocks = S == Slope::none ? 3 : 2;
  const T *x, *dy, *dy2, *y;
  Line<T, N> line;
  A activation;

  __device__ void begin(int c) {
    if constexpr (S == Slope::before) line.begin(c);
  }
  __device__ void read(int64_t at, Kept& kept) const {
    kept.x = fetch<T, N>(x + at);
    kept.dy = fetch<T, N>(dy + at);
    if constexpr (S == Slope::result) {
      if (dy2) kept.dy2 = fetch<T, N>(dy2 + at);
      kept.y = fetch<T, N>(y + at);
    }
  }
  __device__ void spread_out(const Kept& kept, float (&values)[N], float (&g)[N]) const {
    spread<T, N>(values, kept.x);
    spread<T, N>(g, kept.dy);
    if constexpr (S == Slope::result) {
      float more[N];
      if (dy2) {
        spread<T, N>(more, kept.dy2);
#pragma unroll
        for (int i = 0; i < N; ++i) g[i] += more[i];
      }
      spread<T, N>(more, kept.y);
#pragma unroll
      for (int i = 0; i < N; ++i) g[i] = through(g[i], activation.slope_of(more[i]));
    }
    if constexpr (S == Slope::before)
#pragma unroll
      for (int i = 0; i < N; ++i) g[i] = through(g[i], activation.slope_at(line(values[i], i)));
  }
};

template <class T, int N, class Arrives>
struct GradientSums {
  static constexpr int ahead = 2, blocks = Arrives::blocks;
  using Kept = typename Arrives::Kept;
  Arrives arriving;
  const float *mean, *invstd;
  T* dz;
  float *dscale, *dshift;
  float middle[N];

  __device__ void begin(int c) {
    arriving.begin(c);
    load<float, N>(middle, mean + c);
  }
  __device__ void read(int64_t at, Kept& kept) const { arriving.read(at, kept); }
  __device__ void operator()(int64_t at, const Kept& kept, float (&first)[N], float (&second)[N]) const {
    float values[N], g[N];
    arriving.spread_out(kept, values, g);
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

template <class T, int N, class Arrives>
struct InputGradient {
  static constexpr int ahead = 2, blocks = Arrives::blocks;
  using Kept = typename Arrives::Kept;
  Arrives arriving;
  const float *scale, *mean, *invstd, *dscale, *dshift;
  T* dx;
  float count;
  // dx = factor * (g - level - (x - mean) * slope), as one line through g and x: a number of each less to keep.
  float factor[N], slope[N], offset[N];

  __device__ void begin(int c) {
    arriving.begin(c);
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
  __device__ void read(int64_t at, Kept& kept) const { arriving.read(at, kept); }
  __device__ void operator()(int64_t at, const Kept& kept) const {
    float values[N], g[N];
    arriving.spread_out(kept, values, g);
#pragma unroll
    for (int i = 0; i < N; ++i) g[i] = fmaf(factor[i], g[i], fmaf(slope[i], values[i], offset[i]));
    store<T, N>(dx + at, g);
  }
};

template <class T, int N>
struct BiasSum {
  static constexpr int ahead = 4, blocks = 4;
  using Kept = Pack<T, N>;
  const T* dy;
  T* db;

  __device__ void begin(int) {}
  __device__ void read(int64_t at, Kept& kept) const { kept = fetch<T, N>(dy + at); }
  __device__ void operator()(int64_t, const Kept& kept, float (&first)[N], float (&)[N]) const {
    float g[N];
    spread<T, N>(g, kept);
#pragma unroll
    for (int i = 0; i < N; ++i) first[i] += g[i];
  }
  __device__ void end(int c, double first, double) const { db[c] = rounded<T>(static_cast<float>(first)); }
};

template <class T, int N, class Arrives>
Call gradient_sums(Device& device, Partials& partials, const Op& op, const Walk& walk, const Arrives& arriving) {
  GradientSums<T, N, Arrives> body{arriving,          op["saved_mean"].as<float>(), op["saved_invstd"].as<float>(),
                                   find<T>(op, "dz"), op["dscale"].as<float>(),     op["dshift"].as<float>()};
  return reducing<N>(device, partials, op, walk, body);
}

template <class T, int N, class Arrives>
Call input_gradient(Device& device, const Op& op, const Walk& walk, const Arrives& arriving) {
  InputGradient<T, N, Arrives> body{arriving, op["scale"].as<float>(), op["saved_mean"].as<float>(), op["saved_invstd"].as<float>(),
                                    op["dscale"].as<float>(), op["dshift"].as<float>(), op["dx"].as<T>(), static_cast<float>(walk.count())};
  return visiting<N>(device, op, "gradient", walk, body);
}

template <class T>
void batch_norm_backward(Device& device, Partials& partials, const Op& op, std::vector<Call>& calls) {
  Walk walk(op["x"]);
  const T *x = op["x"].as<T>(), *dy = op["dy"].as<T>();
  Call last = packed<T>(walk, [&](auto width) -> Call {
    constexpr int N = width();
    if (op.activation().empty()) {
      Arriving<T, N, Clamp, Slope::none> arriving{x, dy};
      calls.push_back(gradient_sums<T, N>(device, partials, op, walk, arriving));
      return input_gradient<T, N>(device, op, walk, arriving);
    }
    return activated(op, [&](auto activation) -> Call {
      constexpr int M = decltype(width)::value;
      using A = decltype(activation);
      if (!op.find("y")) {
        Arriving<T, M, A, Slope::before> arriving{x, dy, nullptr, nullptr, line_of<T, M>(op), activation};
        calls.push_back(gradient_sums<T, M>(device, partials, op, walk, arriving));
        return input_gradient<T, M>(device, op, walk, arriving);
      }
      Arriving<T, M, A, Slope::result> arriving{x, dy, find<T>(op, "dy2"), op["y"].as<T>(), {}, activation};
      calls.push_back(gradient_sums<T, M>(device, partials, op, walk, arriving));
      // What the first pass has summed and written for the skip need not be gathered from three tensors again.
      return input_gradient<T, M>(device, op, walk, Arriving<T, M, Clamp, Slope::none>{x, op["dz"].as<T>()});
    });
  });
  calls.push_back(std::move(last));
}

template <class T>
Call bias_gradient(Device& device, Partials& partials, const Op& op) {
  Walk walk(op["dy"]);
  return packed<T>(walk, [&](auto width) {
    return reducing<width()>(device, partials, op, walk, BiasSum<T, width()>{op["dy"].as<T>(), op["db"].as<T>()});
  });
}

}  // namespace tare::vendor

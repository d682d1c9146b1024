// What goes image by image: one factor a channel (squeeze and excitation), and sums over an image's pixels.
#pragma once

#include "reduction.cuh"

namespace tare::vendor {

// The pixels of one image, which is blockIdx.z.
struct Picture {
  explicit Picture(const Value& value) : walk(value), pixels(static_cast<int>(value.shape[2] * value.shape[3])), images(static_cast<unsigned>(value.shape[0])) {
    if (images > 65535) throw Failure("unsupported", "more than 65535 images at once");
  }

  __device__ int64_t at(int pixel, int c) const {
    int64_t begin = static_cast<int64_t>(blockIdx.z) * pixels * walk.channels;
    return begin + (walk.last ? static_cast<int64_t>(pixel) * walk.channels + c : static_cast<int64_t>(c) * pixels + pixel);
  }
  // The place of this image's channel among those of all images.
  __device__ int64_t place(int c) const { return static_cast<int64_t>(blockIdx.z) * walk.channels + c; }

  Walk walk;
  int pixels;
  unsigned images;
};

template <class T, int N>
__global__ void __launch_bounds__(256) scale_picture(Picture picture, const T* x, const T* s, T* y) {
  int c = channel_of<N>(picture.walk);
  if (c >= picture.walk.channels) return;
  float factor[N], values[N];
  load<T, N>(factor, s + picture.place(c));
  int lanes = static_cast<int>(gridDim.y * blockDim.y);
  for (int pixel = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y); pixel < picture.pixels; pixel += lanes) {
    load<T, N>(values, x + picture.at(pixel, c));
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] *= factor[i];
    store<T, N>(y + picture.at(pixel, c), values);
  }
}

// One sum over the pixels of each image's channel, by one block: `body(index, kept, sum)` adds, `body.end(place, sum)`
// takes the sums of N channels.
template <int N, class Body>
__global__ void __launch_bounds__(256, 2) sum_picture(Picture picture, Body body) {
  constexpr int ahead = 4;
  __shared__ Folding<1, N> shared;
  int c = channel_of<N>(picture.walk);
  bool inside = c < picture.walk.channels;
  float own[1][N] = {};
  if (inside) {
    body.begin(picture.place(c));
    int lanes = static_cast<int>(blockDim.y);
    for (int pixel = static_cast<int>(threadIdx.y); pixel < picture.pixels; pixel += ahead * lanes) {
      typename Body::Kept kept[ahead];
#pragma unroll
      for (int k = 0; k < ahead; ++k)
        if (pixel + k * lanes < picture.pixels) body.read(picture.at(pixel + k * lanes, c), kept[k]);
#pragma unroll
      for (int k = 0; k < ahead; ++k)
        if (pixel + k * lanes < picture.pixels) body(picture.at(pixel + k * lanes, c), kept[k], own[0]);
    }
  }
  fold(own, shared);
  if (threadIdx.y > 0 || !inside) return;
#pragma unroll
  for (int i = 0; i < N; ++i) own[0][i] = shared.totals[i * blockDim.x + threadIdx.x];
  body.end(picture.place(c), own[0]);
}

template <class T, int N>
struct Mean {
  using Kept = Pack<T, N>;
  const T* x;
  T* y;
  float count;

  __device__ void begin(int64_t) {}
  __device__ void read(int64_t at, Kept& kept) const { kept = fetch<T, N>(x + at); }
  __device__ void operator()(int64_t, const Kept& kept, float (&sum)[N]) const {
    float values[N];
    spread<T, N>(values, kept);
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] += values[i];
  }
  __device__ void end(int64_t place, float (&sum)[N]) const {
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] /= count;
    store<T, N>(y + place, sum);
  }
};

template <class T, int N>
struct ScaleGradient {
  struct Kept {
    Pack<T, N> x, dy;
  };
  const T *x, *s, *dy;
  T *dx, *ds;
  float factor[N];

  __device__ void begin(int64_t place) { load<T, N>(factor, s + place); }
  __device__ void read(int64_t at, Kept& kept) const { kept.x = fetch<T, N>(x + at), kept.dy = fetch<T, N>(dy + at); }
  __device__ void operator()(int64_t at, const Kept& kept, float (&sum)[N]) const {
    float values[N], g[N];
    spread<T, N>(values, kept.x);
    spread<T, N>(g, kept.dy);
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] += g[i] * values[i], g[i] *= factor[i];
    store<T, N>(dx + at, g);
  }
  __device__ void end(int64_t place, float (&sum)[N]) const { store<T, N>(ds + place, sum); }
};

// As many threads across as there are packs of channels, up to a warp; the others share out the pixels.
template <int N>
Launch picture_shape(const Picture& picture, int chunks) {
  Launch launch = launches_of(picture.walk, N, 1, 1).back();
  launch.grid.y = static_cast<unsigned>(std::clamp<int64_t>(picture.pixels / launch.block.y, 1, chunks));
  launch.grid.z = picture.images;
  return launch;
}

template <int N, class Body>
Call summing(Device& device, const Picture& picture, Body body) {
  Launch launch = picture_shape<N>(picture, 1);
  return [=, stream = device.stream] { start(sum_picture<N, Body>, launch.grid, launch.block, stream, picture, body); };
}

template <class T>
Call average_picture(Device& device, const Op& op) {
  Picture picture(op["x"]);
  return packed<T>(picture.walk, [&](auto width) {
    constexpr int N = width();
    return summing<N>(device, picture, Mean<T, N>{op["x"].as<T>(), op["y"].as<T>(), static_cast<float>(picture.pixels)});
  });
}

template <class T>
Call scale_channels(Device& device, const Op& op) {
  Picture picture(op["x"]);
  const T *x = op["x"].as<T>(), *s = op["s"].as<T>();
  T* y = op["y"].as<T>();
  return packed<T>(picture.walk, [&](auto width) -> Call {
    constexpr int N = width();
    Launch launch = picture_shape<N>(picture, 16);
    return [=, stream = device.stream] { start(scale_picture<T, N>, launch.grid, launch.block, stream, picture, x, s, y); };
  });
}

template <class T>
Call scale_channels_backward(Device& device, const Op& op) {
  Picture picture(op["x"]);
  return packed<T>(picture.walk, [&](auto width) {
    constexpr int N = width();
    return summing<N>(device, picture, ScaleGradient<T, N>{op["x"].as<T>(), op["s"].as<T>(), op["dy"].as<T>(), op["dx"].as<T>(), op["ds"].as<T>()});
  });
}

}  // namespace tare::vendor

// Kernels over the pixels of each image: one factor per channel (squeeze and excitation), and sums over pixels.
#pragma once

#include "reduction.cuh"

namespace tare::vendor {

// The pixels of one image; the image is blockIdx.z.
struct Image {
  explicit Image(const Value& value) : layout(value), pixels(static_cast<int>(value.shape[2] * value.shape[3])), images(static_cast<unsigned>(value.shape[0])) {
    if (images > 65535) throw Failure("unsupported", "more than 65535 images at once");
  }

  __device__ int64_t at(int pixel, int c) const {
    int64_t begin = static_cast<int64_t>(blockIdx.z) * pixels * layout.channels;
    return begin + (layout.last ? static_cast<int64_t>(pixel) * layout.channels + c : static_cast<int64_t>(c) * pixels + pixel);
  }
  // The index of this image's channel among those of all images.
  __device__ int64_t index(int c) const { return static_cast<int64_t>(blockIdx.z) * layout.channels + c; }

  ChannelLayout layout;
  int pixels;
  unsigned images;
};

template <class T, int N>
__global__ void __launch_bounds__(256) scale_image(Image image, const T* x, const T* s, T* y) {
  int c = channel_of<N>(image.layout);
  if (c >= image.layout.channels) return;
  float factor[N], values[N];
  load<T, N>(factor, s + image.index(c));
  int lanes = static_cast<int>(gridDim.y * blockDim.y);
  for (int pixel = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y); pixel < image.pixels; pixel += lanes) {
    load<T, N>(values, x + image.at(pixel, c));
#pragma unroll
    for (int i = 0; i < N; ++i) values[i] *= factor[i];
    store<T, N>(y + image.at(pixel, c), values);
  }
}

// One sum over the pixels of each channel of each image, by one block. `body(offset, loaded, sum)` adds to it, and
// `body.end(index, sum)` takes the sums of N channels.
template <int N, class Body>
__global__ void __launch_bounds__(256, 2) sum_image(Image image, Body body) {
  constexpr int ahead = 4;
  __shared__ ReductionBuffer<1, N> shared;
  int c = channel_of<N>(image.layout);
  bool inside = c < image.layout.channels;
  float own[1][N] = {};
  if (inside) {
    body.begin(image.index(c));
    int lanes = static_cast<int>(blockDim.y);
    for (int pixel = static_cast<int>(threadIdx.y); pixel < image.pixels; pixel += ahead * lanes) {
      typename Body::Loaded loaded[ahead];
#pragma unroll
      for (int k = 0; k < ahead; ++k)
        if (pixel + k * lanes < image.pixels) body.read(image.at(pixel + k * lanes, c), loaded[k]);
#pragma unroll
      for (int k = 0; k < ahead; ++k)
        if (pixel + k * lanes < image.pixels) body(image.at(pixel + k * lanes, c), loaded[k], own[0]);
    }
  }
  reduce_block(own, shared);
  if (threadIdx.y > 0 || !inside) return;
#pragma unroll
  for (int i = 0; i < N; ++i) own[0][i] = shared.totals[i * blockDim.x + threadIdx.x];
  body.end(image.index(c), own[0]);
}

template <class T, int N>
struct Mean {
  using Loaded = Pack<T, N>;
  const T* x;
  T* y;
  float count;

  __device__ void begin(int64_t) {}
  __device__ void read(int64_t at, Loaded& loaded) const { loaded = load_pack<T, N>(x + at); }
  __device__ void operator()(int64_t, const Loaded& loaded, float (&sum)[N]) const {
    float values[N];
    unpack<T, N>(values, loaded);
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] += values[i];
  }
  __device__ void end(int64_t index, float (&sum)[N]) const {
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] /= count;
    store<T, N>(y + index, sum);
  }
};

template <class T, int N>
struct ScaleGradient {
  struct Loaded {
    Pack<T, N> x, dy;
  };
  const T *x, *s, *dy;
  T *dx, *ds;
  float factor[N];

  __device__ void begin(int64_t index) { load<T, N>(factor, s + index); }
  __device__ void read(int64_t at, Loaded& loaded) const { loaded.x = load_pack<T, N>(x + at), loaded.dy = load_pack<T, N>(dy + at); }
  __device__ void operator()(int64_t at, const Loaded& loaded, float (&sum)[N]) const {
    float values[N], g[N];
    unpack<T, N>(values, loaded.x);
    unpack<T, N>(g, loaded.dy);
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] += g[i] * values[i], g[i] *= factor[i];
    store<T, N>(dx + at, g);
  }
  __device__ void end(int64_t index, float (&sum)[N]) const { store<T, N>(ds + index, sum); }
};

// One thread in x per pack of channels, up to a warp; the threads in y share the pixels.
template <int N>
Launch image_shape(const Image& image, int chunks) {
  Launch launch = candidate_launches(image.layout, N, 1, 1).back();
  launch.grid.y = static_cast<unsigned>(std::clamp<int64_t>(image.pixels / launch.block.y, 1, chunks));
  launch.grid.z = image.images;
  return launch;
}

template <int N, class Body>
Call make_image_sum(Device& device, const Image& image, Body body) {
  Launch launch = image_shape<N>(image, 1);
  return [=, stream = device.stream] { start(sum_image<N, Body>, launch.grid, launch.block, stream, image, body); };
}

template <class T>
Call average_image(Device& device, const Op& op) {
  Image image(op["x"]);
  return vectorize_channels<T>(image.layout, [&](auto width) {
    constexpr int N = width();
    return make_image_sum<N>(device, image, Mean<T, N>{op["x"].as<T>(), op["y"].as<T>(), static_cast<float>(image.pixels)});
  });
}

template <class T>
Call scale_channels(Device& device, const Op& op) {
  Image image(op["x"]);
  const T *x = op["x"].as<T>(), *s = op["s"].as<T>();
  T* y = op["y"].as<T>();
  return vectorize_channels<T>(image.layout, [&](auto width) -> Call {
    constexpr int N = width();
    Launch launch = image_shape<N>(image, 16);
    return [=, stream = device.stream] { start(scale_image<T, N>, launch.grid, launch.block, stream, image, x, s, y); };
  });
}

template <class T>
Call scale_channels_backward(Device& device, const Op& op) {
  Image image(op["x"]);
  return vectorize_channels<T>(image.layout, [&](auto width) {
    constexpr int N = width();
    return make_image_sum<N>(device, image, ScaleGradient<T, N>{op["x"].as<T>(), op["s"].as<T>(), op["dy"].as<T>(), op["dx"].as<T>(), op["ds"].as<T>()});
  });
}

}  // namespace tare::vendor

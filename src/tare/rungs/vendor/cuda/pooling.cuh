// Pooling: a thread stays with its channels and iterates over the pixels of the result.
#pragma once

#include "per_image.cuh"

namespace tare::vendor {

struct Window {
  Window(const Op& op, const Value& image, const Value& pooled) : image(image), pooled(pooled) {
    adaptive = op.attributes["adaptive"].boolean;
    for (int d = 0; d < 2; ++d) {
      kernel[d] = adaptive ? 0 : static_cast<int>(op.integers("kernel")[d]);
      stride[d] = adaptive ? 0 : static_cast<int>(op.integers("stride")[d]);
      padding[d] = adaptive ? 0 : static_cast<int>(op.integers("padding")[d]);
      size[d] = static_cast<int>(image.shape[2 + d]);
      count[d] = static_cast<int>(pooled.shape[2 + d]);
    }
  }

  // Where a window begins along one side, and how long it is. Parts of it may lie outside the image.
  __device__ int begin(int d, int p) const { return adaptive ? p * size[d] / count[d] : p * stride[d] - padding[d]; }
  __device__ int length(int d, int p) const { return adaptive ? ((p + 1) * size[d] + count[d] - 1) / count[d] - begin(d, p) : kernel[d]; }

  // The first and the last window along one side that contain a pixel.
  __device__ int first(int d, int pixel) const {
    if (adaptive) return pixel * count[d] / size[d];
    int from = pixel + padding[d] - kernel[d] + 1;
    return from <= 0 ? 0 : (from + stride[d] - 1) / stride[d];
  }
  __device__ int last(int d, int pixel) const {
    if (adaptive) return ((pixel + 1) * count[d] - 1) / size[d];
    return min((pixel + padding[d]) / stride[d], count[d] - 1);
  }

  // Channels can be loaded in packs only where they are neighbours in both tensors.
  ChannelLayout both() const {
    ChannelLayout result = pooled;
    result.last = pooled.last && image.last;
    return result;
  }

  ChannelLayout image, pooled;
  bool adaptive;
  int kernel[2], stride[2], padding[2], size[2], count[2];
};

// Calls `body(image, row, column, channel, offset)` for every pixel.
template <int N, class Body>
__global__ void __launch_bounds__(256) pixels(ChannelLayout layout, int rows, int columns, Body body) {
  int c = channel_of<N>(layout);
  if (c >= layout.channels) return;
  unsigned lanes = gridDim.y * blockDim.y, count = static_cast<unsigned>(layout.count());
  for (unsigned m = blockIdx.y * blockDim.y + threadIdx.y; m < count; m += lanes) {
    unsigned line = m / columns;
    body(static_cast<int>(line / rows), static_cast<int>(line % rows), static_cast<int>(m % columns), c, layout.at(m, c));
  }
}

// As in torch: a NaN is the largest of its window (the last one, if there are several), and where every value is minus
// infinity, the position is that of the first tap inside the image.
template <class T, int N, bool maximum>
struct Pool {
  Window window;
  const T* x;
  T* y;
  uint8_t* index;

  __device__ void operator()(int image, int p, int q, int c, int64_t to) const {
    float result[N];
    uint8_t place[N];
    // Clipped to the image beforehand: without branches in the loop, several loads are in flight.
    int top = window.begin(0, p), left = window.begin(1, q), height = window.length(0, p), width = window.length(1, q);
    int r_end = min(height, window.size[0] - top), s_end = min(width, window.size[1] - left);
    int r_begin = max(0, -top), s_begin = max(0, -left);
#pragma unroll
    for (int i = 0; i < N; ++i) result[i] = maximum ? -INFINITY : 0.0f, place[i] = static_cast<uint8_t>(r_begin * width + s_begin);
    for (int r = r_begin; r < r_end; ++r)
#pragma unroll 4
      for (int s = s_begin; s < s_end; ++s) {
        int row = top + r, column = left + s;
        float values[N];
        load<T, N>(values, x + window.image.at((static_cast<int64_t>(image) * window.size[0] + row) * window.size[1] + column, c));
#pragma unroll
        for (int i = 0; i < N; ++i) {
          if (!maximum) result[i] += values[i];
          else if (values[i] > result[i] || isnan(values[i])) result[i] = values[i], place[i] = static_cast<uint8_t>(r * width + s);
        }
      }
    if (!maximum)
#pragma unroll
      for (int i = 0; i < N; ++i) result[i] /= static_cast<float>(height * width);
    store<T, N>(y + to, result);
    if (maximum && index) {
      Pack<uint8_t, N> pack;
#pragma unroll
      for (int i = 0; i < N; ++i) pack.values[i] = place[i];
      *reinterpret_cast<Pack<uint8_t, N>*>(index + to) = pack;
    }
  }
};

// Sums over the windows that contain a pixel, so that no two threads write to the same address.
template <class T, int N, bool maximum>
struct PoolBackward {
  Window window;
  const T* dy;
  const uint8_t* index;
  T* dx;

  __device__ void operator()(int image, int row, int column, int c, int64_t to) const {
    float sum[N] = {};
    for (int p = window.first(0, row); p <= window.last(0, row); ++p)
      for (int q = window.first(1, column); q <= window.last(1, column); ++q) {
        int64_t from = window.pooled.at((static_cast<int64_t>(image) * window.count[0] + p) * window.count[1] + q, c);
        int tap = (row + window.padding[0] - p * window.stride[0]) * window.kernel[1] + column + window.padding[1] - q * window.stride[1];
        float values[N];
        load<T, N>(values, dy + from);
        Pack<uint8_t, N> place;
        if (maximum) place = *reinterpret_cast<const Pack<uint8_t, N>*>(index + from);
#pragma unroll
        for (int i = 0; i < N; ++i)
          if (maximum) sum[i] += place.values[i] == tap ? values[i] : 0.0f;
          else sum[i] += values[i] / static_cast<float>(window.length(0, p) * window.length(1, q));
      }
    store<T, N>(dx + to, sum);
  }
};

template <int N, class Body>
Call over_pixels(Device& device, const Op& op, const Value& value, Body body) {
  ChannelLayout layout(value);
  int rows = static_cast<int>(value.shape[2]), columns = static_cast<int>(value.shape[3]);
  return best_launch(device, op, "pixels", candidate_launches(layout, N, 8 * device.processors, 1), [&](const Launch& launch) -> Call {
    return [=, stream = device.stream] { start(pixels<N, Body>, launch.grid, launch.block, stream, layout, rows, columns, body); };
  });
}

template <class T, bool maximum>
Call pool(Device& device, const Op& op) {
  if (!maximum && op["y"].shape[2] * op["y"].shape[3] == 1 && op.integers("padding") == std::vector<int64_t>{0, 0} &&
      op.integers("kernel") == std::vector<int64_t>{op["x"].shape[2], op["x"].shape[3]})
    return average_image<T>(device, op);
  Window window(op, op["x"], op["y"]);
  return vectorize_channels<T>(window.both(), [&](auto width) {
    constexpr int N = width();
    return over_pixels<N>(device, op, op["y"], Pool<T, N, maximum>{window, op["x"].as<T>(), op["y"].as<T>(), find<uint8_t>(op, "index")});
  });
}

template <class T, bool maximum>
Call pool_backward(Device& device, const Op& op) {
  Window window(op, op["dx"], op["dy"]);
  return vectorize_channels<T>(window.both(), [&](auto width) {
    constexpr int N = width();
    return over_pixels<N>(device, op, op["dx"], PoolBackward<T, N, maximum>{window, op["dy"].as<T>(), find<uint8_t>(op, "index"), op["dx"].as<T>()});
  });
}

}  // namespace tare::vendor

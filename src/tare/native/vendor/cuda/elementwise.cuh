// Casts, orders, pools, losses and the update.
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
  return [=, stream = device.stream] { each<<<blocks, 256, 0, stream>>>(count, body); };
}

template <class T>
Call cast(Device& device, const Op& op) {
  const float* x = op["x"].as<float>();
  T* y = op["y"].as<T>();
  return for_each(device, op["x"].size, [=] __device__(int64_t i) { y[i] = rounded<T>(x[i]); });
}

template <class T>
Call activation_backward(Device& device, const Op& op) {
  const T *y = op["y"].as<T>(), *dy = op["dy"].as<T>();
  T* dx = op["dx"].as<T>();
  int kind = activation_kind(op);
  return for_each(device, op["dx"].size, [=] __device__(int64_t i) { dx[i] = passes(number(y[i]), kind) ? dy[i] : rounded<T>(0.0f); });
}

struct Strides {
  explicit Strides(const Value& value) {
    for (int d = 0; d < 4; ++d) size[d] = value.shape[d], stride[d] = value.strides[d];
  }
  // From the place in the memory of one tensor of this shape to the four coordinates.
  __device__ void split(int64_t at, int64_t (&index)[4], bool last) const {
    if (last) {
      index[1] = at % size[1], at /= size[1];
      index[3] = at % size[3], at /= size[3];
      index[2] = at % size[2], index[0] = at / size[2];
    } else {
      index[3] = at % size[3], at /= size[3];
      index[2] = at % size[2], at /= size[2];
      index[1] = at % size[1], index[0] = at / size[1];
    }
  }
  __device__ int64_t at(int64_t a, int64_t b, int64_t c, int64_t d) const {
    return a * stride[0] + b * stride[1] + c * stride[2] + d * stride[3];
  }
  int64_t size[4], stride[4];
};

template <class T>
Call reorder(Device& device, const Op& op) {
  const T* x = op["x"].as<T>();
  T* y = op["y"].as<T>();
  Strides from(op["x"]), to(op["y"]);
  bool last = op["y"].channels_last();
  return for_each(device, op["y"].size, [=] __device__(int64_t i) {
    int64_t at[4];
    to.split(i, at, last);
    y[i] = x[from.at(at[0], at[1], at[2], at[3])];
  });
}

struct Window {
  explicit Window(const Op& op) {
    for (int d = 0; d < 2; ++d)
      kernel[d] = op.integers("kernel")[d], stride[d] = op.integers("stride")[d], padding[d] = op.integers("padding")[d];
  }
  // The windows along one side that a pixel lies in.
  __device__ int64_t first(int d, int64_t pixel) const {
    int64_t from = pixel + padding[d] - kernel[d] + 1;
    return from <= 0 ? 0 : (from + stride[d] - 1) / stride[d];
  }
  __device__ int64_t last(int d, int64_t pixel, int64_t count) const {
    int64_t to = (pixel + padding[d]) / stride[d];
    return to < count - 1 ? to : count - 1;
  }
  int64_t kernel[2], stride[2], padding[2];
};

// One thread an output, the taps of its window one after the other.
template <class T, bool maximum>
Call pool(Device& device, const Op& op) {
  const T* x = op["x"].as<T>();
  T* y = op["y"].as<T>();
  uint8_t* index = find<uint8_t>(op, "index");
  Strides image(op["x"]), pooled(op["y"]);
  Window window(op);
  bool last = op["y"].channels_last();
  return for_each(device, op["y"].size, [=] __device__(int64_t i) {
    int64_t at[4];
    pooled.split(i, at, last);
    float most = -INFINITY, sum = 0;
    int place = 0;
    for (int64_t r = 0; r < window.kernel[0]; ++r)
      for (int64_t s = 0; s < window.kernel[1]; ++s) {
        int64_t row = at[2] * window.stride[0] - window.padding[0] + r, col = at[3] * window.stride[1] - window.padding[1] + s;
        if (row < 0 || col < 0 || row >= image.size[2] || col >= image.size[3]) continue;
        float value = number(x[image.at(at[0], at[1], row, col)]);
        sum += value;
        if (value > most) most = value, place = static_cast<int>(r * window.kernel[1] + s);
      }
    y[i] = rounded<T>(maximum ? most : sum / (window.kernel[0] * window.kernel[1]));
    if (maximum && index) index[i] = static_cast<uint8_t>(place);
  });
}

// One thread a pixel, the windows that it lies in one after the other: no two threads write the same place.
template <class T, bool maximum>
Call pool_backward(Device& device, const Op& op) {
  const T* dy = op["dy"].as<T>();
  T* dx = op["dx"].as<T>();
  const uint8_t* index = find<uint8_t>(op, "index");
  Strides image(op["dx"]), pooled(op["dy"]);
  Window window(op);
  bool last = op["dx"].channels_last();
  return for_each(device, op["dx"].size, [=] __device__(int64_t i) {
    int64_t at[4];
    image.split(i, at, last);
    float sum = 0;
    for (int64_t p = window.first(0, at[2]); p <= window.last(0, at[2], pooled.size[2]); ++p)
      for (int64_t q = window.first(1, at[3]); q <= window.last(1, at[3], pooled.size[3]); ++q) {
        int64_t from = pooled.at(at[0], at[1], p, q);
        int64_t tap = (at[2] + window.padding[0] - p * window.stride[0]) * window.kernel[1] + at[3] + window.padding[1] - q * window.stride[1];
        if (maximum ? index[from] == tap : true) sum += number(dy[from]);
      }
    dx[i] = rounded<T>(maximum ? sum : sum / (window.kernel[0] * window.kernel[1]));
  });
}

// The sum over a block, for all its threads.
__device__ inline float block_sum(float value) {
  __shared__ float sums[32];
  for (int off = 16; off; off /= 2) value += __shfl_xor_sync(~0u, value, off);
  __syncthreads();
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
  __syncthreads();
  float total = 0;
  for (unsigned i = 0; i < blockDim.x / 32; ++i) total += sums[i];
  return total;
}

__device__ inline float block_max(float value) {
  __shared__ float most[32];
  for (int off = 16; off; off /= 2) value = fmaxf(value, __shfl_xor_sync(~0u, value, off));
  __syncthreads();
  if (threadIdx.x % 32 == 0) most[threadIdx.x / 32] = value;
  __syncthreads();
  float result = most[0];
  for (unsigned i = 1; i < blockDim.x / 32; ++i) result = fmaxf(result, most[i]);
  return result;
}

// One block a row. `y` gets the log-softmax; `dx` the gradient of the mean cross entropy, `rows` each row's loss.
template <class T>
__global__ void softmax_rows(const T* x, T* y, T* dx, float* losses, const int64_t* target, int64_t size) {
  const T* row = x + blockIdx.x * size;
  float most = -INFINITY, sum = 0;
  for (int64_t i = threadIdx.x; i < size; i += blockDim.x) most = fmaxf(most, number(row[i]));
  most = block_max(most);
  for (int64_t i = threadIdx.x; i < size; i += blockDim.x) sum += expf(number(row[i]) - most);
  float log = most + logf(block_sum(sum));
  for (int64_t i = threadIdx.x; i < size; i += blockDim.x) {
    float value = number(row[i]) - log;
    if (y) y[blockIdx.x * size + i] = rounded<T>(value);
    if (dx) dx[blockIdx.x * size + i] = rounded<T>((expf(value) - (i == target[blockIdx.x])) / gridDim.x);
  }
  if (dx && threadIdx.x == 0) losses[blockIdx.x] = log - number(row[target[blockIdx.x]]);
}

static __global__ void sum_up(const float* parts, int64_t count, float scale, float* result) {
  float sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) sum += parts[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *result = sum * scale;
}

template <class T>
Call log_softmax(Device& device, const Op& op) {
  const T* x = op["x"].as<T>();
  T* y = op["y"].as<T>();
  int64_t rows = op["x"].shape[0], size = op["x"].shape[1];
  return [=, stream = device.stream] { softmax_rows<T><<<rows, 256, 0, stream>>>(x, y, nullptr, nullptr, nullptr, size); };
}

template <class T>
Call cross_entropy(Device& device, const Op& op) {
  const T* x = op["x"].as<T>();
  T* dx = op["dx"].as<T>();
  const int64_t* target = op["target"].as<int64_t>();
  float* loss = op["loss"].as<float>();
  int64_t rows = op["x"].shape[0], size = op["x"].shape[1];
  float* losses = reinterpret_cast<float*>(device.allocate(rows * 4));
  return [=, stream = device.stream] {
    softmax_rows<T><<<rows, 256, 0, stream>>>(x, nullptr, dx, losses, target, size);
    sum_up<<<1, 256, 0, stream>>>(losses, rows, 1.0f / rows, loss);
  };
}

template <class T, class Target>
__global__ void square_parts(const T* x, const Target* target, T* dx, float* parts, int64_t size) {
  float sum = 0;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < size; i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    float off = number(x[i]) - number(target[i]);
    sum += off * off;
    dx[i] = rounded<T>(2 * off / size);
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

template <class T>
Call mean_square(Device& device, const Op& op) {
  const T* x = op["x"].as<T>();
  T* dx = op["dx"].as<T>();
  const Value& target = op["target"];
  float* loss = op["loss"].as<float>();
  int64_t size = op["x"].size;
  unsigned blocks = static_cast<unsigned>(std::clamp<int64_t>(size / 1024, 1, 2ll * device.processors));
  float* parts = reinterpret_cast<float*>(device.allocate(blocks * 4));
  bool wide = target.dtype == "f32";
  char* data = target.data;
  return [=, stream = device.stream] {
    if (wide) square_parts<<<blocks, 256, 0, stream>>>(x, reinterpret_cast<const float*>(data), dx, parts, size);
    else square_parts<<<blocks, 256, 0, stream>>>(x, reinterpret_cast<const T*>(data), dx, parts, size);
    sum_up<<<1, 256, 0, stream>>>(parts, blocks, 1.0f / size, loss);
  };
}

// v = momentum * v + g; w = w - rate * v: all weights in one call, those with half gradients first.
template <class T>
Call sgd(Device& device, const Op& op) {
  const float* gradient = op["gradient"].as<float>();
  const T* half = find<T>(op, "gradient_half");
  T* weights = find<T>(op, "weights");
  int64_t halves = weights ? op["weights"].size : 0;
  float *master = op["master"].as<float>(), *velocity = op["momentum"].as<float>();
  float rate = static_cast<float>(op.number("learning_rate")), keep = static_cast<float>(op.number("momentum"));
  bool stored_rounded = op.attributes["round"].boolean;
  return for_each(device, op["master"].size, [=] __device__(int64_t i) {
    float g = i < halves ? number(half[i]) : gradient[i - halves];
    float v = keep * velocity[i] + g;
    float w = master[i] - rate * v;
    if (stored_rounded) w = number(rounded<T>(w));
    velocity[i] = v;
    master[i] = w;
    if (i < halves) weights[i] = rounded<T>(w);
  });
}

}  // namespace tare::vendor

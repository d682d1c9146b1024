// Casts, orders, losses and the update.
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

// More or fewer channels, neighbours in memory: what is new is zero.
template <class From, class T>
Call change_channels(Device& device, const Op& op) {
  const From* x = op["x"].as<From>();
  T* y = op["y"].as<T>();
  unsigned before = static_cast<unsigned>(op["x"].shape[1]), after = static_cast<unsigned>(op["y"].shape[1]);
  return for_each(device, op["y"].size, [=] __device__(int64_t i) {
    unsigned pixel = static_cast<unsigned>(i) / after, c = static_cast<unsigned>(i) % after;
    y[i] = c < before ? rounded<T>(number(x[static_cast<int64_t>(pixel) * before + c])) : rounded<T>(0.0f);
  });
}

template <class T>
Call change_channels(Device& device, const Op& op) {
  return op["x"].dtype == "f32" ? change_channels<float, T>(device, op) : change_channels<T, T>(device, op);
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

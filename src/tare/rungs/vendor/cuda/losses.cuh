// Softmax and the losses, each with its gradient.
#pragma once

#include "device.cuh"

namespace tare::vendor {

// The sum over a block, returned to all its threads.
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
  __shared__ float max_value[32];
  for (int off = 16; off; off /= 2) value = fmaxf(value, __shfl_xor_sync(~0u, value, off));
  __syncthreads();
  if (threadIdx.x % 32 == 0) max_value[threadIdx.x / 32] = value;
  __syncthreads();
  float result = max_value[0];
  for (unsigned i = 1; i < blockDim.x / 32; ++i) result = fmaxf(result, max_value[i]);
  return result;
}

// One block per row. `y` gets the log-softmax, `dx` the gradient of the mean cross entropy, and `losses` the loss of each
// row.
template <class T>
__global__ void softmax_rows(const T* x, T* y, T* dx, float* losses, const int64_t* target, int64_t size) {
  const T* row = x + blockIdx.x * size;
  float max_value = -INFINITY, sum = 0;
  for (int64_t i = threadIdx.x; i < size; i += blockDim.x) max_value = fmaxf(max_value, to_float(row[i]));
  max_value = block_max(max_value);
  for (int64_t i = threadIdx.x; i < size; i += blockDim.x) sum += expf(to_float(row[i]) - max_value);
  float log = max_value + logf(block_sum(sum));
  for (int64_t i = threadIdx.x; i < size; i += blockDim.x) {
    float value = to_float(row[i]) - log;
    if (y) y[blockIdx.x * size + i] = from_float<T>(value);
    if (dx) dx[blockIdx.x * size + i] = from_float<T>((expf(value) - (i == target[blockIdx.x])) / gridDim.x);
  }
  if (dx && threadIdx.x == 0) losses[blockIdx.x] = log - to_float(row[target[blockIdx.x]]);
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
  return [=, stream = device.stream] { start(softmax_rows<T>, rows, 256, stream, x, y, nullptr, nullptr, nullptr, size); };
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
    start(softmax_rows<T>, rows, 256, stream, x, nullptr, dx, losses, target, size);
    start(sum_up, 1, 256, stream, losses, rows, 1.0f / rows, loss);
  };
}

template <class T, class Target>
__global__ void square_parts(const T* x, const Target* target, T* dx, float* parts, int64_t size) {
  float sum = 0;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < size; i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    float off = to_float(x[i]) - to_float(target[i]);
    sum += off * off;
    dx[i] = from_float<T>(2 * off / size);
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
    if (wide) start(square_parts<T, float>, blocks, 256, stream, x, reinterpret_cast<const float*>(data), dx, parts, size);
    else start(square_parts<T, T>, blocks, 256, stream, x, reinterpret_cast<const T*>(data), dx, parts, size);
    start(sum_up, 1, 256, stream, parts, blocks, 1.0f / size, loss);
  };
}

}  // namespace tare::vendor

// What generated kernels of a GPU call: 16-bit floats, vector loads, and reductions over the threads that share a row.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "../cpu/expressions.hpp"

// tests/support/host_cuda has other definitions, which run the kernels on a CPU.
#ifndef TARE_KERNEL
template <int count>
struct Buffers {
  char* data[count];
  __device__ char* operator[](int i) const { return data[i]; }
};
#define TARE_KERNEL(name, threads, buffers) extern "C" __global__ void __launch_bounds__(threads) name(const Buffers<buffers> b)
#endif

using bfloat16_ = __nv_bfloat16;
using half_ = __half;

namespace {

__device__ inline float float_(bfloat16_ x) { return __bfloat162float(x); }
__device__ inline float float_(half_ x) { return __half2float(x); }

template <class T>
__device__ T rounded_(float x);
template <>
__device__ inline bfloat16_ rounded_<bfloat16_>(float x) {
  return __float2bfloat16(x);
}
template <>
__device__ inline half_ rounded_<half_>(float x) {
  return __float2half(x);
}

// Neighbours that are loaded and stored together, at a place that is a multiple of their number.
template <class T, int count>
struct alignas(sizeof(T) * count) Pack {
  T at[count];
};
template <int count, class T>
__device__ inline Pack<T, count> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T, count>*>(from);
}
template <class T, int count>
__device__ inline void store_pack(T* to, const Pack<T, count>& from) {
  *reinterpret_cast<Pack<T, count>*>(to) = from;
}

// The reductions give every thread of a row the same result. Whatever the number of rows, the order is the same: pairs of
// lanes, then warps. `join` must be symmetric, so that both lanes of a pair compute the same.
template <int lanes, class T, class Join>
__device__ inline T over_lanes(T value, Join join) {
#pragma unroll
  for (int off = lanes / 2; off; off /= 2) value = join(value, static_cast<T>(__shfl_xor_sync(0xffffffffu, value, off)));
  return value;
}

// `room` holds eight bytes for each warp of the block, which has one row.
template <int threads, class T, class Join>
__device__ inline T over_block(T value, double* room, Join join) {
  T* warps = reinterpret_cast<T*>(room);
  value = over_lanes<32>(value, join);
  __syncthreads();
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  T total = warps[0];
#pragma unroll
  for (int warp = 1; warp < threads / 32; ++warp) total = join(total, warps[warp]);
  return total;
}

// A block of 32 neighbouring rows, whose elements `height` threads each go through. `room` holds eight bytes for each
// thread.
template <int height, class T, class Join>
__device__ inline T over_columns(T value, double* room, Join join) {
  T* threads = reinterpret_cast<T*>(room);
  __syncthreads();
  threads[threadIdx.y * 32 + threadIdx.x] = value;
  __syncthreads();
  T total = threads[threadIdx.x];
#pragma unroll
  for (int y = 1; y < height; ++y) total = join(total, threads[y * 32 + threadIdx.x]);
  return total;
}

}  // namespace

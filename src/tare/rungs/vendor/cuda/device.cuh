// The device: errors, memory, one stream, and conversions of all types to float.
#pragma once

#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include <cstring>

#include "../activation.hpp"
#include "../program.hpp"

namespace tare::vendor {

inline void check(cudaError_t status, const char* what) {
  if (status == cudaErrorMemoryAllocation) throw Failure("device-oom", std::string("CUDA is out of memory in ") + what);
  if (status != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}
inline void check(cudnnStatus_t status, const char* what) {
  if (status != CUDNN_STATUS_SUCCESS) throw std::runtime_error(std::string(what) + ": " + cudnnGetErrorString(status));
}
inline void check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS) throw std::runtime_error(std::string(what) + ": " + cublasLtGetStatusString(status));
}

// tests/support/host_cuda has another definition, which runs the kernels on a CPU.
#ifdef __CUDACC__
template <class... Parameters, class... Arguments>
void start(void (*kernel)(Parameters...), dim3 grid, dim3 block, cudaStream_t stream, const Arguments&... arguments) {
  kernel<<<grid, block, 0, stream>>>(arguments...);
}
#endif

// The device state of a step: one stream, and one workspace that all ops share.
struct Device {
  explicit Device(int index, const std::string& cache) {
    check(cudaSetDevice(index), "cudaSetDevice");
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
    check(cudnnCreate(&cudnn), "cudnnCreate");
    check(cudnnSetStream(cudnn, stream), "cudnnSetStream");
    check(cublasLtCreate(&cublas), "cublasLtCreate");
    cudaDeviceProp properties;
    check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
    processors = properties.multiProcessorCount;
    name = std::string(properties.name) + " cudnn " + std::to_string(cudnnGetVersion()) + " cublas " +
           std::to_string(cublasLtGetVersion());
    cache_folder = cache;
  }

  char* allocate(int64_t bytes) {
    void* result = nullptr;
    check(cudaMalloc(&result, bytes), "cudaMalloc");
    check(cudaMemsetAsync(result, 0, bytes, stream), "cudaMemsetAsync");
    allocated += bytes;
    peak = std::max(peak, allocated);
    return static_cast<char*>(result);
  }

  // Ordered by the stream: a plain cudaMemcpy or cudaMemset may return before it is finished, and a non-blocking stream
  // would run concurrently with it.
  void copy(void* to, const void* from, int64_t bytes, cudaMemcpyKind direction) {
    check(cudaMemcpyAsync(to, from, bytes, direction, stream), "cudaMemcpyAsync");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }

  void release(char* memory, int64_t bytes) {
    check(cudaFree(memory), "cudaFree");
    allocated -= bytes;
  }

  // Grows while algorithms are searched; `settle` shrinks it to what the chosen ones need.
  char* workspace(int64_t bytes) {
    if (bytes > workspace_bytes) {
      check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
      if (workspace_memory) release(workspace_memory, workspace_bytes);
      workspace_memory = allocate(bytes);
      workspace_bytes = bytes;
    }
    return workspace_memory;
  }

  void settle(int64_t bytes) {
    if (workspace_memory) release(workspace_memory, workspace_bytes);
    workspace_memory = nullptr;
    workspace_bytes = 0;
    workspace(std::max<int64_t>(bytes, 256));
    peak = allocated;
  }

  // Chooses one of several equivalent calls: the first one, unless a search is installed here.
  std::function<int(const std::string& key, int count, const std::function<Call(int)>& candidate)> choose =
      [](const std::string&, int, const std::function<Call(int)>&) { return 0; };

  cudaStream_t stream = nullptr;
  cudnnHandle_t cudnn = nullptr;
  cublasLtHandle_t cublas = nullptr;
  int processors = 1;
  std::string name, cache_folder;
  int64_t allocated = 0, peak = 0, workspace_bytes = 0;
  char* workspace_memory = nullptr;
};

template <class T>
__device__ inline float to_float(T value) {
  return static_cast<float>(value);
}
template <>
__device__ inline float to_float(__nv_bfloat16 value) {
  return __bfloat162float(value);
}
template <>
__device__ inline float to_float(__half value) {
  return __half2float(value);
}
template <class T>
__device__ inline T from_float(float value) {
  return static_cast<T>(value);
}
template <>
__device__ inline __nv_bfloat16 from_float(float value) {
  return __float2bfloat16(value);
}
template <>
__device__ inline __half from_float(float value) {
  return __float2half(value);
}

// N neighbouring elements, as wide as one load of 16 bytes. Half types are kept two per register, as they are loaded.
template <class T, int N, bool two_a_word = sizeof(T) == 2 && N % 2 == 0>
struct alignas(sizeof(T) * N) Pack {
  T values[N];

  __device__ T get(int i) const { return values[i]; }
  __device__ void set(int i, T value) { values[i] = value; }
};

template <class T, int N>
struct alignas(sizeof(T) * N) Pack<T, N, true> {
  uint32_t words[N / 2];

  __device__ T get(int i) const {
    uint16_t bits = static_cast<uint16_t>(words[i / 2] >> (i % 2 * 16));
    T value;
    memcpy(&value, &bits, 2);
    return value;
  }
  // Elements must be set in order: an even one overwrites the whole word.
  __device__ void set(int i, T value) {
    uint16_t bits;
    memcpy(&bits, &value, 2);
    words[i / 2] = i % 2 ? words[i / 2] | static_cast<uint32_t>(bits) << 16 : bits;
  }
};

template <class T, int N>
__device__ inline Pack<T, N> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T, N>*>(from);
}

template <class T, int N>
__device__ inline void unpack(float (&to)[N], const Pack<T, N>& pack) {
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] = to_float(pack.get(i));
}

template <class T, int N>
__device__ inline void load(float (&to)[N], const T* from) {
  unpack<T, N>(to, load_pack<T, N>(from));
}

template <class T, int N>
__device__ inline void store(T* to, const float (&from)[N]) {
  Pack<T, N> pack;
#pragma unroll
  for (int i = 0; i < N; ++i) pack.set(i, from_float<T>(from[i]));
  *reinterpret_cast<Pack<T, N>*>(to) = pack;
}

template <class T>
T* find(const Op& op, const char* role) {
  Value* value = op.find(role);
  return value ? value->as<T>() : nullptr;
}

}  // namespace tare::vendor

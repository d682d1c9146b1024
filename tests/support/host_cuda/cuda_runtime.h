// As much of CUDA as our own kernels use, on a CPU: the threads of a block are fibers that run in turn, each until the next
// barrier; blocks run one after the other. Slow, and the same arithmetic.
#pragma once

#include <dlfcn.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#define __host__
#define __device__
#define __global__
#define __shared__ static
#define __launch_bounds__(...)

struct dim3 {
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  unsigned x, y, z;
};

inline dim3 threadIdx, blockIdx, blockDim, gridDim;

class Fibers {
 public:
  static Fibers& all() {
    static Fibers made;
    return made;
  }

  // Every thread of one block.
  void run(const std::function<void()>& body) {
    body_ = &body;
    unsigned count = blockDim.x * blockDim.y * blockDim.z;
    contexts_.resize(count), done_.assign(count, false), stacks_.resize(std::max<size_t>(stacks_.size(), count));
    for (unsigned i = 0; i < count; ++i) {
      stacks_[i].resize(64 << 10);
      getcontext(&contexts_[i]);
      contexts_[i].uc_stack.ss_sp = stacks_[i].data();
      contexts_[i].uc_stack.ss_size = stacks_[i].size();
      contexts_[i].uc_link = &home_;
      makecontext(&contexts_[i], reinterpret_cast<void (*)()>(enter), 0);
    }
    for (unsigned left = count; left;)
      for (now_ = 0; now_ < count; ++now_) {
        if (done_[now_]) continue;
        threadIdx = dim3(now_ % blockDim.x, now_ / blockDim.x % blockDim.y, now_ / blockDim.x / blockDim.y);
        swapcontext(&home_, &contexts_[now_]);
        left -= done_[now_];
      }
  }

  void wait() { swapcontext(&contexts_[now_], &home_); }
  unsigned number() const { return now_; }

 private:
  static void enter() {
    (*all().body_)();
    all().done_[all().now_] = true;
  }

  ucontext_t home_;
  std::vector<ucontext_t> contexts_;
  std::vector<std::vector<char>> stacks_;
  std::vector<bool> done_;
  const std::function<void()>* body_ = nullptr;
  unsigned now_ = 0;
};

inline void __syncthreads() { Fibers::all().wait(); }
inline void __threadfence() {}
inline unsigned atomicAdd(unsigned* at, unsigned more) {
  unsigned before = *at;
  *at += more;
  return before;
}
inline float __ldcg(const float* at) { return *at; }
// All threads of a block come here together, as they do in our kernels.
template <class T>
T __shfl_xor_sync(unsigned, T value, int off) {
  static T given[1024];
  unsigned number = Fibers::all().number();
  given[number] = value;
  __syncthreads();
  T received = given[number ^ static_cast<unsigned>(off)];
  __syncthreads();
  return received;
}
inline unsigned __ballot_sync(unsigned, bool holds) {
  static bool given[1024];
  unsigned number = Fibers::all().number(), result = 0;
  given[number] = holds;
  __syncthreads();
  for (unsigned lane = 0; lane < 32; ++lane) result |= static_cast<unsigned>(given[number / 32 * 32 + lane]) << lane;
  __syncthreads();
  return result;
}
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
using std::isnan;

using cudaStream_t = void*;
enum cudaDataType_t { CUDA_R_32F, CUDA_R_16BF, CUDA_R_16F };
enum cudaError_t { cudaSuccess, cudaErrorMemoryAllocation };
constexpr unsigned cudaStreamNonBlocking = 1;
struct cudaDeviceProp {
  int multiProcessorCount = 2;
  char name[8] = "host";
};
inline const char* cudaGetErrorString(cudaError_t) { return "an error"; }
inline cudaError_t cudaSetDevice(int) { return cudaSuccess; }
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t*, unsigned) { return cudaSuccess; }
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* to, int) {
  *to = cudaDeviceProp();
  return cudaSuccess;
}
inline cudaError_t cudaMalloc(void** to, size_t bytes) {
  *to = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  return *to ? cudaSuccess : cudaErrorMemoryAllocation;
}
inline cudaError_t cudaFree(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
// There is no cudaMemset and no cudaMemcpy here: neither keeps to the order of a stream.
inline cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) {
  std::memset(to, value, bytes);
  return cudaSuccess;
}
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}

// The clock is no clock: every way to compute something is the fastest in turn.
using cudaEvent_t = void*;
inline cudaError_t cudaEventCreate(cudaEvent_t*) { return cudaSuccess; }
inline cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t, cudaEvent_t) {
  static unsigned drawn = 1;
  drawn = drawn * 1664525u + 1013904223u;
  *ms = static_cast<float>(drawn >> 8);
  return cudaSuccess;
}
inline cudaError_t cudaGetLastError() { return cudaSuccess; }

namespace tare::vendor {

template <class... Parameters, class... Arguments>
void start(void (*kernel)(Parameters...), dim3 grid, dim3 block, cudaStream_t, const Arguments&... arguments) {
  gridDim = grid, blockDim = block;
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = dim3(x, y, z);
        Fibers::all().run([&] { kernel(arguments...); });
      }
}

}  // namespace tare::vendor

// Generated kernels are compiled into a library for the CPU. Each is a function of its buffers.
#define CUDART_VERSION 13000
#define TARE_KERNEL(name, threads, buffers) extern "C" void name(char* const* b)
using cudaLibrary_t = void*;
using cudaKernel_t = void*;
inline cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t* library, const char* path, void*, void*, unsigned, void*, void*, unsigned) {
  *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  return *library ? cudaSuccess : cudaErrorMemoryAllocation;
}
inline cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
  *kernel = dlsym(library, name);
  return *kernel ? cudaSuccess : cudaErrorMemoryAllocation;
}
inline cudaError_t cudaLibraryUnload(cudaLibrary_t library) { return dlclose(library) ? cudaErrorMemoryAllocation : cudaSuccess; }
inline cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments, size_t, cudaStream_t stream) {
  auto function = reinterpret_cast<void (*)(char* const*)>(const_cast<void*>(kernel));
  tare::vendor::start(function, grid, block, stream, static_cast<char* const*>(arguments[0]));
  return cudaSuccess;
}

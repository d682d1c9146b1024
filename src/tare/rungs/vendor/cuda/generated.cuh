// Kernels that were generated for a plan, from their compiled code beside it.
#pragma once

#include "device.cuh"

namespace tare::vendor {

class KernelLibrary {
 public:
  explicit KernelLibrary(const std::string& path) {
#if CUDART_VERSION >= 12080
    check(cudaLibraryLoadFromFile(&library_, path.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0), "loading the generated kernels");
#else
    throw Failure("unsupported", "generated kernels need CUDA 12.8 or newer");
#endif
  }
  KernelLibrary(const KernelLibrary&) = delete;
  ~KernelLibrary() {
#if CUDART_VERSION >= 12080
    cudaLibraryUnload(library_);
#endif
  }

  const void* find(const std::string& name) const {
#if CUDART_VERSION >= 12080
    cudaKernel_t kernel = nullptr;
    check(cudaLibraryGetKernel(&kernel, library_, name.c_str()), name.c_str());
    return reinterpret_cast<const void*>(kernel);
#else
    return nullptr;
#endif
  }

 private:
#if CUDART_VERSION >= 12080
  cudaLibrary_t library_ = nullptr;
#endif
};

inline Call fused(Device& device, const KernelLibrary& library, const Op& op) {
  const void* kernel = library.find(op.attributes["kernel"].as_text());
  std::vector<char*> buffers;
  for (size_t i = 0; i < op.in.size(); ++i) buffers.push_back(op["i" + std::to_string(i)].data);
  for (size_t i = 0; i < op.out.size(); ++i) buffers.push_back(op["o" + std::to_string(i)].data);
  auto block = op.integers("block");
  dim3 blocks(static_cast<unsigned>(op.integer("blocks"))), threads(static_cast<unsigned>(block[0]), static_cast<unsigned>(block[1]));
  return [=, stream = device.stream]() mutable {
    // The pointers are one argument, a structure.
    void* arguments[] = {buffers.data()};
    check(cudaLaunchKernel(kernel, blocks, threads, arguments, 0, stream), "launching a generated kernel");
  };
}

}  // namespace tare::vendor

// Permutations of dimensions, and copies of blocks into or out of a tensor.
#pragma once

#include "elementwise.cuh"

namespace tare::vendor {

// Dimension d of y is dimension order[d] of x. Threads follow the memory order of y.
template <class T>
struct Permute {
  static constexpr int max_rank = 6;
  const T* x;
  T* y;
  int rank;
  // From the innermost dimension of y in memory to the outermost.
  unsigned size[max_rank];
  int64_t from[max_rank];

  __device__ void operator()(int64_t i) const {
    unsigned left = static_cast<unsigned>(i);
    int64_t source = 0;
#pragma unroll
    for (int d = 0; d < max_rank; ++d)
      if (d < rank) {
        unsigned next = left / size[d];
        source += static_cast<int64_t>(left - next * size[d]) * from[d];
        left = next;
      }
    y[i] = x[source];
  }
};

template <class T>
Call permute(Device& device, const Op& op) {
  const Value &x = op["x"], &y = op["y"];
  std::vector<int64_t> order = op.integers("order");
  Permute<T> body{x.as<T>(), y.as<T>(), static_cast<int>(order.size())};
  if (body.rank > Permute<T>::max_rank || y.size >> 32) throw Failure("unsupported", "another order of so many dimensions or numbers");
  std::vector<int> inward(order.size());
  for (size_t d = 0; d < inward.size(); ++d) inward[d] = static_cast<int>(d);
  if (y.channels_last()) inward = {0, 2, 3, 1};
  for (int d = 0; d < body.rank; ++d) {
    int dimension = inward[body.rank - 1 - d];
    body.size[d] = static_cast<unsigned>(y.shape[dimension]);
    body.from[d] = x.strides[order[dimension]];
  }
  return for_each(device, y.size, body);
}

// Rows of one width; source and target have their own pitch. A thread copies N neighbours.
template <class T, int N>
struct CopyBlock {
  const T* x;
  T* y;
  unsigned across;
  int64_t from, to;

  __device__ void operator()(int64_t i) const {
    unsigned row = static_cast<unsigned>(i) / across, column = (static_cast<unsigned>(i) - row * across) * N;
    *reinterpret_cast<Pack<T, N>*>(y + row * to + column) = load_pack<T, N>(x + row * from + column);
  }
};

template <class T>
Call copy_block(Device& device, const Op& op) {
  int64_t rows = op.integer("rows"), width = op.integer("width"), from = op.integer("from_pitch"), to = op.integer("to_pitch");
  int64_t here = op.integer("from_offset"), there = op.integer("to_offset"), bytes = op["y"].bytes();
  if (rows * width >> 32) throw Failure("unsupported", "a block of more than four thousand million numbers");
  char* all = op["y"].data;
  Call copy = vectorize<T>({width, from, to, here, there}, [&](auto pack) {
    constexpr int N = pack();
    CopyBlock<T, N> body{op["x"].as<T>() + here, op["y"].as<T>() + there, static_cast<unsigned>(width / N), from, to};
    return for_each(device, rows * width / N, body);
  });
  if (!op.attributes["clear"].boolean) return copy;
  return [=, stream = device.stream] {
    check(cudaMemsetAsync(all, 0, bytes, stream), "cudaMemsetAsync");
    copy();
  };
}

}  // namespace tare::vendor

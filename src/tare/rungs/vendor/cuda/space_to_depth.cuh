// Space to depth and back (lowering/fuse.py). With blocks of one pixel it only adds or removes channels.
#pragma once

#include "elementwise.cuh"

namespace tare::vendor {

// Both tensors are channels-last. Channel (dy, dx, c) of a deep pixel is channel c of the flat pixel at block * (row,
// column) + (dy, dx) - origin.
struct Blocks {
  Blocks(const Op& op, const Value& flat, const Value& deep)
      : block(static_cast<unsigned>(op.integer("block"))), top(static_cast<unsigned>(op.integers("origin")[0])), left(static_cast<unsigned>(op.integers("origin")[1])) {
    if ((flat.size | deep.size) >> 32) throw Failure("unsupported", "images of more than four thousand million numbers");
    auto sizes = [](const Value& value, unsigned(&to)[3]) {
      for (int d = 0; d < 3; ++d) to[d] = static_cast<unsigned>(value.shape[1 + d]);
    };
    sizes(flat, flat_size), sizes(deep, deep_size);
  }

  unsigned block, top, left;
  // Channels, rows, columns.
  unsigned flat_size[3], deep_size[3];
};

// A thread writes N neighbouring channels.
template <class From, class T, int N>
struct SpaceToDepth {
  Blocks blocks;
  const From* x;
  T* y;

  __device__ void operator()(int64_t i) const {
    unsigned packs = blocks.deep_size[0] / N, pixel = static_cast<unsigned>(i) / packs, c = (static_cast<unsigned>(i) - pixel * packs) * N;
    unsigned line = pixel / blocks.deep_size[2], image = line / blocks.deep_size[1], colours = blocks.flat_size[0];
    unsigned row = (line - image * blocks.deep_size[1]) * blocks.block, column = (pixel - line * blocks.deep_size[2]) * blocks.block;
    unsigned tap = c / colours, colour = c - tap * colours, dy = tap / blocks.block, dx = tap - dy * blocks.block;
    float values[N];
#pragma unroll
    for (int k = 0; k < N; ++k) {
      // Above and left of the image the unsigned index wraps around, so it is too large as well.
      unsigned from_row = row + dy - blocks.top, from_column = column + dx - blocks.left;
      bool inside = dy < blocks.block && from_row < blocks.flat_size[1] && from_column < blocks.flat_size[2];
      int64_t from = (static_cast<int64_t>(image) * blocks.flat_size[1] + from_row) * blocks.flat_size[2] + from_column;
      values[k] = inside ? to_float(x[from * colours + colour]) : 0.0f;
      if (++colour == colours) colour = 0, ++dx;
      if (dx == blocks.block) dx = 0, ++dy;
    }
    store<T, N>(y + i * N, values);
  }
};

template <class From, class T>
Call space_to_depth(Device& device, const Op& op) {
  Blocks blocks(op, op["x"], op["y"]);
  return vectorize<T>({op["y"].shape[1]}, [&](auto width) {
    constexpr int N = width();
    return for_each(device, op["y"].size / N, SpaceToDepth<From, T, N>{blocks, op["x"].as<From>(), op["y"].as<T>()});
  });
}

template <class T>
Call space_to_depth(Device& device, const Op& op) {
  return op["x"].dtype == "f32" ? space_to_depth<float, T>(device, op) : space_to_depth<T, T>(device, op);
}

template <class T>
Call depth_to_space(Device& device, const Op& op) {
  Blocks blocks(op, op["y"], op["x"]);
  const T* x = op["x"].as<T>();
  T* y = op["y"].as<T>();
  return for_each(device, op["y"].size, [=] __device__(int64_t i) {
    unsigned at = static_cast<unsigned>(i), pixel = at / blocks.flat_size[0], colour = at - pixel * blocks.flat_size[0];
    unsigned line = pixel / blocks.flat_size[2], image = line / blocks.flat_size[1];
    unsigned row = line - image * blocks.flat_size[1] + blocks.top, column = pixel - line * blocks.flat_size[2] + blocks.left;
    unsigned from_row = row / blocks.block, from_column = column / blocks.block;
    unsigned tap = (row - from_row * blocks.block) * blocks.block + column - from_column * blocks.block;
    int64_t from = (static_cast<int64_t>(image) * blocks.deep_size[1] + from_row) * blocks.deep_size[2] + from_column;
    // Rows after the last window may not have been read.
    bool inside = from_row < blocks.deep_size[1] && from_column < blocks.deep_size[2];
    y[i] = inside ? x[from * blocks.deep_size[0] + tap * blocks.flat_size[0] + colour] : from_float<T>(0.0f);
  });
}

}  // namespace tare::vendor

// Walks over tensors channel by channel: a thread stays with its channels, so that what belongs to a channel is loaded
// once, and sums over a channel need no atomics. The last block to finish a column of channels adds up the blocks' sums.
#pragma once

#include "device.cuh"

namespace tare::vendor {

struct Walk {
  bool last = true;
  int64_t outer = 1, inner = 1;
  int channels = 1;

  explicit Walk(const Value& value) {
    if (value.shape.size() == 4) {
      channels = static_cast<int>(value.shape[1]);
      last = value.channels_last() || value.shape[2] * value.shape[3] == 1;
      inner = last ? 1 : value.shape[2] * value.shape[3];
    } else {
      channels = static_cast<int>(value.shape.back());
    }
    outer = value.size / channels / inner;
    if (count() >> 31) throw Failure("unsupported", "more than two thousand million numbers a channel");
  }

  __host__ __device__ int64_t count() const { return outer * inner; }
  __device__ int64_t at(int64_t m, int c) const {
    if (last) return m * channels + c;
    unsigned image = static_cast<unsigned>(m) / static_cast<unsigned>(inner);
    return (static_cast<int64_t>(image) * channels + c) * inner + (static_cast<unsigned>(m) - image * static_cast<unsigned>(inner));
  }
};

struct Launch {
  dim3 grid, block;
};

// Blocks of 256 threads; with channels last, as many neighbours in a row as there are (up to a warp), rows below. A thread
// gets `ahead` rows or more, as it has that many loads under way, unless processors would go without work.
inline Launch shape_of(const Walk& walk, int pack, int processors, int waves, int ahead) {
  if (!walk.last) {
    unsigned chunks = static_cast<unsigned>(std::clamp<int64_t>(walk.count() / 2048, 1, std::max(1, waves * processors / walk.channels)));
    return {dim3(walk.channels, chunks), dim3(1, 256)};
  }
  int across = walk.channels / pack;
  int x = 1;
  while (x < 32 && x < across) x *= 2;
  int y = 256 / x;
  int64_t columns = (across + x - 1) / x, rows = (walk.count() + y - 1) / y;
  int64_t most = std::max<int64_t>(rows / ahead, std::min<int64_t>(rows, processors / columns));
  int64_t chunks = std::clamp<int64_t>(waves * processors / columns, 1, std::max<int64_t>(most, 1));
  return {dim3(static_cast<unsigned>(columns), static_cast<unsigned>(chunks)), dim3(x, y)};
}

// The channel of a thread, in packs of N.
template <int N>
__device__ inline int channel_of(const Walk& walk) {
  return walk.last ? static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) * N : static_cast<int>(blockIdx.x);
}

// `body.begin(c)` once, then `body.read(index, kept)` and `body(index, kept)` for all of a thread's packs: several are read
// before the first is written, or each load would wait for the store before it. `Body::blocks` of them share a processor:
// with too many registers a thread, too few loads are under way.
template <int N, class Body>
__global__ void __launch_bounds__(256, Body::blocks) visit(Walk walk, Body body) {
  constexpr int ahead = Body::ahead;
  int c = channel_of<N>(walk);
  if (c >= walk.channels) return;
  body.begin(c);
  int64_t lanes = static_cast<int64_t>(gridDim.y) * blockDim.y, count = walk.count();
  for (int64_t m = static_cast<int64_t>(blockIdx.y) * blockDim.y + threadIdx.y; m < count; m += ahead * lanes) {
    typename Body::Kept kept[ahead];
#pragma unroll
    for (int k = 0; k < ahead; ++k)
      if (m + k * lanes < count) body.read(walk.at(m + k * lanes, c), kept[k]);
#pragma unroll
    for (int k = 0; k < ahead; ++k)
      if (m + k * lanes < count) body(walk.at(m + k * lanes, c), kept[k]);
  }
}

// Adds up what the rows of a block have: the first row has the sums then.
template <int S, int N>
__device__ inline void fold(float (&sums)[S][256][N]) {
  int thread = threadIdx.y * blockDim.x + threadIdx.x;
  __syncthreads();
  for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
    if (threadIdx.y < half)
#pragma unroll
      for (int i = 0; i < N; ++i)
        for (int s = 0; s < S; ++s) sums[s][thread][i] += sums[s][thread + half * blockDim.x][i];
    __syncthreads();
  }
}

// The same with two sums a channel: `body(index, kept, first, second)` adds to them, `body.end(c, first, second)` takes
// them. It goes from the end to the beginning: the call before has left its last rows in the cache, and the visit behind
// starts with those that this one has read last.
template <int N, class Body>
__global__ void __launch_bounds__(256, Body::blocks) reduce(Walk walk, Body body, float* partial, unsigned* done) {
  __shared__ float sums[2][256][N];
  __shared__ bool finishing;
  constexpr int ahead = Body::ahead;
  int c = channel_of<N>(walk);
  bool inside = c < walk.channels;
  float first[N] = {}, second[N] = {};
  if (inside) {
    body.begin(c);
    int64_t lanes = static_cast<int64_t>(gridDim.y) * blockDim.y;
    for (int64_t m = walk.count() - 1 - static_cast<int64_t>(blockIdx.y) * blockDim.y - threadIdx.y; m >= 0; m -= ahead * lanes) {
      typename Body::Kept kept[ahead];
#pragma unroll
      for (int k = 0; k < ahead; ++k)
        if (m - k * lanes >= 0) body.read(walk.at(m - k * lanes, c), kept[k]);
#pragma unroll
      for (int k = 0; k < ahead; ++k)
        if (m - k * lanes >= 0) body(walk.at(m - k * lanes, c), kept[k], first, second);
    }
  }
  int thread = threadIdx.y * blockDim.x + threadIdx.x;
#pragma unroll
  for (int i = 0; i < N; ++i) sums[0][thread][i] = first[i], sums[1][thread][i] = second[i];
  fold(sums);
  if (threadIdx.y == 0 && inside)
#pragma unroll
    for (int i = 0; i < N; ++i)
      for (int s = 0; s < 2; ++s) partial[(static_cast<int64_t>(blockIdx.y) * 2 + s) * walk.channels + c + i] = sums[s][threadIdx.x][i];
  __threadfence();
  if (thread == 0) {
    finishing = atomicAdd(&done[blockIdx.x], 1u) == gridDim.y - 1;
    if (finishing) done[blockIdx.x] = 0;
  }
  __syncthreads();
  if (!finishing) return;
  __threadfence();
  // Hundreds of blocks have left their sums: all threads of this one share them out.
  float total[2][N] = {};
  if (inside)
    for (unsigned chunk = threadIdx.y; chunk < gridDim.y; chunk += blockDim.y)
      for (int s = 0; s < 2; ++s)
#pragma unroll
        for (int i = 0; i < N; ++i) total[s][i] += __ldcg(partial + (static_cast<int64_t>(chunk) * 2 + s) * walk.channels + c + i);
#pragma unroll
  for (int i = 0; i < N; ++i) sums[0][thread][i] = total[0][i], sums[1][thread][i] = total[1][i];
  fold(sums);
  if (threadIdx.y == 0 && inside)
    for (int i = 0; i < N; ++i) body.end(c + i, sums[0][threadIdx.x][i], sums[1][threadIdx.x][i]);
}

// Room for the blocks' sums, shared by all reductions of a step: they run one after the other.
struct Partials {
  void want(const Launch& launch, const Walk& walk) {
    floats = std::max<int64_t>(floats, 2ll * launch.grid.y * walk.channels);
    counters = std::max<int64_t>(counters, launch.grid.x);
  }
  void allocate(Device& device) {
    if (floats) partial = reinterpret_cast<float*>(device.allocate(floats * 4));
    if (counters) done = reinterpret_cast<unsigned*>(device.allocate(counters * 4));
  }
  int64_t floats = 0, counters = 0;
  float* partial = nullptr;
  unsigned* done = nullptr;
};

// Calls `make` with the number of neighbours a thread takes at once as a compile-time constant.
template <class T, class Make>
Call packed(const Walk& walk, Make make) {
  constexpr int wide = 16 / sizeof(T);
  if (walk.last && walk.channels % wide == 0) return make(std::integral_constant<int, wide>());
  return make(std::integral_constant<int, 1>());
}

template <int N, class Body>
Call visiting(Device& device, const Walk& walk, Body body) {
  Launch launch = shape_of(walk, N, device.processors, 8, Body::ahead);
  return [=, stream = device.stream] { start(visit<N, Body>, launch.grid, launch.block, stream, walk, body); };
}

template <int N, class Body>
Call reducing(Device& device, Partials& partials, const Walk& walk, Body body) {
  Launch launch = shape_of(walk, N, device.processors, 4, Body::ahead);
  partials.want(launch, walk);
  return [=, &partials, stream = device.stream] {
    start(reduce<N, Body>, launch.grid, launch.block, stream, walk, body, partials.partial, partials.done);
  };
}

}  // namespace tare::vendor

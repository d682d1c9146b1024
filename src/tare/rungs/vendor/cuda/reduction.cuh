// Sums over each channel of a tensor, without atomics and always in the same order: threads, warps, blocks. The last block
// of a column to finish adds up the sums of all its blocks.
#pragma once

#include "channels.cuh"

namespace tare::vendor {

constexpr int block_warps = block_threads / 32;

// Shared memory for S sums of N channels per thread.
template <int S, int N>
struct ReductionBuffer {
  static constexpr int max_sums = S * N * 32;
  float warps[block_warps][max_sums];
  // Sum s of channel i of the pack at threadIdx.x has the index (s * N + i) * blockDim.x + threadIdx.x.
  float totals[max_sums];
};

__device__ inline int thread_number() { return static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x); }

// Leaves the block's totals in `shared.totals`.
template <int S, int N>
__device__ inline void reduce_block(float (&own)[S][N], ReductionBuffer<S, N>& shared) {
  int thread = thread_number(), across = static_cast<int>(blockDim.x);
  for (int off = across; off < 32; off *= 2)
#pragma unroll
    for (int s = 0; s < S; ++s)
#pragma unroll
      for (int i = 0; i < N; ++i) own[s][i] += __shfl_xor_sync(0xffffffffu, own[s][i], off);
  if (thread % 32 < across)
#pragma unroll
    for (int s = 0; s < S; ++s)
#pragma unroll
      for (int i = 0; i < N; ++i) shared.warps[thread / 32][(s * N + i) * across + thread % 32] = own[s][i];
  __syncthreads();
  for (int o = thread; o < S * N * across; o += block_threads) {
    float sum = 0;
#pragma unroll
    for (int warp = 0; warp < block_warps; ++warp) sum += shared.warps[warp][o];
    shared.totals[o] = sum;
  }
  __syncthreads();
}

// Stores this block's totals, and returns whether it is the last block of its column.
template <int S, int N>
__device__ inline bool store_partials(const ReductionBuffer<S, N>& shared, int width, float* partial, unsigned* done) {
  __shared__ bool finishing;
  float* mine = partial + (static_cast<int64_t>(blockIdx.x) * gridDim.y + blockIdx.y) * width;
  for (int o = thread_number(); o < width; o += block_threads) mine[o] = shared.totals[o];
  __threadfence();
  __syncthreads();
  if (thread_number() == 0) {
    finishing = atomicAdd(&done[blockIdx.x], 1u) == gridDim.y - 1;
    if (finishing) done[blockIdx.x] = 0;
    __threadfence();
  }
  __syncthreads();
  return finishing;
}

// Adds up the totals of all blocks of a column. One block does this alone, so many loads are in flight.
template <int S, int N>
__device__ inline void sum_partials(ReductionBuffer<S, N>& shared, int width, const float* partial) {
  const float* column = partial + static_cast<int64_t>(blockIdx.x) * gridDim.y * width;
  float* apart = shared.warps[0];
  int lanes = min(width, block_threads), groups = min(block_threads / lanes, 32), group = thread_number() / lanes;
  if (group < groups)
    for (int o = thread_number() % lanes; o < width; o += lanes) {
      float sum = 0;
#pragma unroll 16
      for (unsigned chunk = group; chunk < gridDim.y; chunk += groups) sum += __ldcg(column + static_cast<int64_t>(chunk) * width + o);
      apart[group * width + o] = sum;
    }
  __syncthreads();
  for (int o = thread_number(); o < width; o += block_threads) {
    float sum = 0;
    for (int g = 0; g < groups; ++g) sum += apart[g * width + o];
    shared.totals[o] = sum;
  }
  __syncthreads();
}

// Two sums per channel: `body(offset, loaded, first, second)` adds to them, `body.end(c, first, second)` takes them. It
// iterates backwards: the previous call has left its last rows in the cache, and the next one begins with the rows that
// this one reads last.
template <int N, class Body>
__global__ void __launch_bounds__(block_threads, Body::blocks) reduce(ChannelLayout layout, Body body, float* partial, unsigned* done) {
  __shared__ ReductionBuffer<2, N> shared;
  int c = channel_of<N>(layout);
  float own[2][N] = {};
  if (c < layout.channels)
    stream_rows(
        body, c, layout.count(), [&](int64_t m) { return layout.at(layout.count() - 1 - m, c); },
        [&](int64_t at, const typename Body::Loaded& loaded) { body(at, loaded, own[0], own[1]); });
  reduce_block(own, shared);
  int across = static_cast<int>(blockDim.x), width = 2 * N * across;
  if (gridDim.y > 1) {
    if (!store_partials(shared, width, partial, done)) return;
    sum_partials(shared, width, partial);
  }
  for (int t = thread_number(); t < N * across; t += block_threads) {
    int i = t % N, pack = t / N, channel = (static_cast<int>(blockIdx.x) * across + pack) * N + i;
    if (channel < layout.channels) body.end(channel, shared.totals[i * across + pack], shared.totals[(N + i) * across + pack]);
  }
}

// Memory for the blocks' sums, shared by all reductions of a step, which run one after another.
class Partials {
 public:
  void reserve(Device& device, const Launch& launch, int width) {
    grow(device, sums_, static_cast<int64_t>(launch.grid.x) * launch.grid.y * width * 4);
    // The kernels reset their counters to zero.
    grow(device, done_, static_cast<int64_t>(launch.grid.x) * 4);
  }
  float* sums() const { return reinterpret_cast<float*>(sums_.data); }
  unsigned* done() const { return reinterpret_cast<unsigned*>(done_.data); }

 private:
  struct Room {
    char* data = nullptr;
    int64_t bytes = 0;
  };
  static void grow(Device& device, Room& room, int64_t bytes) {
    if (bytes <= room.bytes) return;
    if (room.data) device.release(room.data, room.bytes);
    room = {device.allocate(bytes), bytes};
  }
  Room sums_, done_;
};

template <int N, class Body>
Call make_reduction(Device& device, Partials& partials, const Op& op, const ChannelLayout& layout, Body body) {
  std::vector<Launch> launches = candidate_launches(layout, N, Body::blocks * device.processors, Body::ahead);
  for (const auto& launch : launches) partials.reserve(device, launch, static_cast<int>(2 * N * launch.block.x));
  return best_launch(device, op, "sums", launches, [&](const Launch& launch) -> Call {
    return [=, &partials, stream = device.stream] {
      start(reduce<N, Body>, launch.grid, launch.block, stream, layout, body, partials.sums(), partials.done());
    };
  });
}

}  // namespace tare::vendor

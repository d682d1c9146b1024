// Iteration over a tensor by channel. A thread stays with its channels, so per-channel data is loaded once, and sums over a
// channel need no atomics.
#pragma once

#include "device.cuh"

namespace tare::vendor {

struct ChannelLayout {
  bool last = true;
  int64_t outer = 1, inner = 1;
  int channels = 1;

  explicit ChannelLayout(const Value& value) {
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

constexpr int block_threads = 256;

// grid.x covers the channels; the blocks of one grid.x (a column) share the rows.
struct Launch {
  dim3 grid, block;
};

// Candidate launches. In channels-last: 4 to 32 packs of channels per block (fewer give more columns and shorter final
// sums), and one, two or four times as many blocks as run at once (more hide each other's tails, fewer load per-channel
// data less often). The best depends on the tensor, so it is searched.
inline std::vector<Launch> candidate_launches(const ChannelLayout& layout, int pack, int at_once, int ahead) {
  std::vector<Launch> result;
  if (!layout.last) {
    int64_t chunks = std::clamp<int64_t>(layout.count() / 2048, 1, std::max(1, 2 * at_once / layout.channels));
    return {{dim3(layout.channels, static_cast<unsigned>(chunks)), dim3(1, block_threads)}};
  }
  int packs = layout.channels / pack;
  for (int across = packs < 8 ? 1 : 4; across <= 32; across *= 2) {
    if (across / 2 >= packs) break;
    int down = block_threads / across;
    int64_t columns = (packs + across - 1) / across, rows = (layout.count() + down - 1) / down;
    // Enough rows for every thread to have its loads in flight, unless multiprocessors would stay idle.
    int64_t most = std::max<int64_t>({rows / ahead, std::min<int64_t>(rows, at_once / columns / 2), 1});
    int64_t before = 0;
    for (int times : {1, 2, 4}) {
      int64_t chunks = std::clamp<int64_t>(times * at_once / columns, 1, most);
      if (chunks != before) result.push_back({dim3(static_cast<unsigned>(columns), static_cast<unsigned>(chunks)), dim3(across, down)});
      before = chunks;
    }
  }
  return result;
}

// The first channel of a thread's pack of N.
template <int N>
__device__ inline int channel_of(const ChannelLayout& layout) {
  return layout.last ? static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) * N : static_cast<int>(blockIdx.x);
}

// Calls `body.read(offset, loaded)` for all rows of a thread, and `use(offset, loaded)` for each after its load. The next
// rows are loaded while the current ones are used, and the first ones while `body.begin` loads per-channel data.
template <class Body, class Place, class Use>
__device__ inline void stream_rows(Body& body, int c, int64_t count, Place place, Use use) {
  constexpr int ahead = Body::ahead;
  int64_t lanes = static_cast<int64_t>(gridDim.y) * blockDim.y;
  int64_t m = static_cast<int64_t>(blockIdx.y) * blockDim.y + threadIdx.y;
  typename Body::Loaded now[ahead], next[ahead];
#pragma unroll
  for (int k = 0; k < ahead; ++k)
    if (m + k * lanes < count) body.read(place(m + k * lanes), now[k]);
  body.begin(c);
  for (; m < count; m += ahead * lanes) {
#pragma unroll
    for (int k = 0; k < ahead; ++k)
      if (m + (ahead + k) * lanes < count) body.read(place(m + (ahead + k) * lanes), next[k]);
#pragma unroll
    for (int k = 0; k < ahead; ++k)
      if (m + k * lanes < count) use(place(m + k * lanes), now[k]);
#pragma unroll
    for (int k = 0; k < ahead; ++k) now[k] = next[k];
  }
}

// Calls `body(offset, loaded)` for every pack. `Body::blocks` blocks share a multiprocessor: with more registers per
// thread, too few loads would be in flight.
template <int N, class Body>
__global__ void __launch_bounds__(block_threads, Body::blocks) visit(ChannelLayout layout, Body body) {
  int c = channel_of<N>(layout);
  if (c >= layout.channels) return;
  stream_rows(
      body, c, layout.count(), [&](int64_t m) { return layout.at(m, c); },
      [&](int64_t at, const typename Body::Loaded& loaded) { body(at, loaded); });
}

// Calls `make` with the number of elements that a thread loads at once, as a compile-time constant.
template <class T, class Make>
Call vectorize_channels(const ChannelLayout& layout, Make make) {
  constexpr int wide = 16 / sizeof(T);
  if (layout.last && layout.channels % wide == 0) return make(std::integral_constant<int, wide>());
  return make(std::integral_constant<int, 1>());
}

// The key of a search: the op, all its tensors, and the pass.
inline std::string search_key(const Op& op, const char* pass) {
  std::string result = op.kind + ":" + pass + ":" + op.activation();
  for (const auto* side : {&op.in, &op.out})
    for (const auto& [role, value] : *side) {
      result += ":" + role + value->dtype + (value->channels_last() ? "l" : "");
      for (int64_t n : value->shape) result += "," + std::to_string(n);
    }
  return result;
}

// The fastest launch of one pass of an op; `make` returns the call of a launch.
template <class Make>
Call best_launch(Device& device, const Op& op, const char* pass, const std::vector<Launch>& launches, Make make) {
  auto candidate = [&](int i) -> Call { return make(launches[i]); };
  int count = static_cast<int>(launches.size());
  return candidate(count == 1 ? 0 : device.choose(search_key(op, pass), count, candidate));
}

template <int N, class Body>
Call make_visit(Device& device, const Op& op, const char* pass, const ChannelLayout& layout, Body body) {
  return best_launch(device, op, pass, candidate_launches(layout, N, Body::blocks * device.processors, Body::ahead), [&](const Launch& launch) -> Call {
    return [=, stream = device.stream] { start(visit<N, Body>, launch.grid, launch.block, stream, layout, body); };
  });
}

}  // namespace tare::vendor

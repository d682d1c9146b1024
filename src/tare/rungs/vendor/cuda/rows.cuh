// Rows and elements that an index names, orders of rows and running sums. Every sum is added up by a single thread in the
// order of the index: without atomics, the same step gives the same bits.
#pragma once

#include "elementwise.cuh"

namespace tare::vendor {

// The index of a row may count from the end.
__device__ inline int64_t named_row(int64_t name, int64_t rows) { return name < 0 ? name + rows : name; }

template <class T>
__device__ inline double to_double(T value) {
  return static_cast<double>(to_float(value));
}
template <>
__device__ inline double to_double(int64_t value) {
  return static_cast<double>(value);
}

constexpr int row_threads = 256, columns_of_thread = 4;

// A block for every entry of the index. Of those with the same name the first adds up all their rows, or the last puts its
// own. y is the base already, or zeros.
template <class T, bool adds>
__global__ void __launch_bounds__(row_threads) rows_into(const T* x, const int64_t* index, T* y, int64_t count, int64_t rows, int64_t width, int64_t skip) {
  __shared__ unsigned same[row_threads / 32];
  int64_t own = blockIdx.x, name = index[own], at = named_row(name, rows);
  if (at < 0 || at >= rows || (adds && skip >= 0 && name == skip)) return;
  int64_t column = static_cast<int64_t>(blockIdx.y) * row_threads * columns_of_thread + threadIdx.x;
  double sums[columns_of_thread];
#pragma unroll
  for (int k = 0; k < columns_of_thread; ++k) {
    int64_t c = column + k * row_threads;
    sums[k] = adds && c < width ? to_double(y[at * width + c]) : 0;
  }
  for (int64_t begin = 0; begin < count; begin += row_threads) {
    int64_t i = begin + threadIdx.x;
    bool matches = i < count && named_row(index[i], rows) == at && !(adds && skip >= 0 && index[i] == skip);
    unsigned ballot = __ballot_sync(0xffffffffu, matches);
    __syncthreads();
    if (threadIdx.x % 32 == 0) same[threadIdx.x / 32] = ballot;
    __syncthreads();
    for (int warp = 0; warp < row_threads / 32; ++warp)
      for (unsigned left = same[warp]; left; left &= left - 1) {
        int64_t from = begin + warp * 32 + __ffs(static_cast<int>(left)) - 1;
        // Another block does it. All threads of this one return.
        if (adds ? from < own : from > own) return;
        if constexpr (adds) {
#pragma unroll
          for (int k = 0; k < columns_of_thread; ++k) {
            int64_t c = column + k * row_threads;
            if (c < width) sums[k] += to_double(x[from * width + c]);
          }
        }
      }
  }
#pragma unroll
  for (int k = 0; k < columns_of_thread; ++k) {
    int64_t c = column + k * row_threads;
    if (c < width) y[at * width + c] = adds ? from_float<T>(static_cast<float>(sums[k])) : x[own * width + c];
  }
}

// Adds row i of x to row index[i] of y, or puts it there, in the order of i. Rows of the index `skip` are left out when
// adding. y begins as `base`, or as zeros.
template <class T, bool adds>
Call scatter_rows(Device& device, const Op& op) {
  const T *x = op["x"].as<T>(), *base = find<T>(op, "base");
  const int64_t* index = op["index"].as<int64_t>();
  T* y = op["y"].as<T>();
  int64_t count = op["index"].size, rows = op["y"].shape[0], width = op["y"].size / rows, skip = op.integer("skip"), bytes = op["y"].bytes();
  int64_t across = row_threads * columns_of_thread;
  dim3 grid(static_cast<unsigned>(count), static_cast<unsigned>((width + across - 1) / across));
  return [=, stream = device.stream] {
    if (base) check(cudaMemcpyAsync(y, base, bytes, cudaMemcpyDeviceToDevice, stream), "cudaMemcpyAsync");
    else check(cudaMemsetAsync(y, 0, bytes, stream), "cudaMemsetAsync");
    start(rows_into<T, adds>, grid, row_threads, stream, x, index, y, count, rows, width, skip);
  };
}

// y begins as base. Element (i, j) of each outer part of x goes to element (index(i, j), j) of y's: it replaces it, or is
// added to it, ... Without `keeps`, an element that anything goes to forgets what it was. A thread looks through the whole
// index for its element of y, which is slow where both are long.
template <class T>
struct Scatter {
  enum Joining { put, sum, mean, largest, smallest };
  const T *x, *base;
  const int64_t* index;
  T* y;
  int64_t count, inner, rows;
  Joining joining;
  bool keeps;

  __device__ void operator()(int64_t at) const {
    int64_t column = at % inner, row = at / inner % rows, part = at / inner / rows, parts = keeps ? 1 : 0;
    double value = to_double(base[at]);
    for (int64_t i = 0; i < count; ++i) {
      int64_t from = (part * count + i) * inner + column;
      if (named_row(index[from], rows) != row) continue;
      double next = to_double(x[from]);
      bool first = parts++ == 0;
      if (first || joining == put) value = next;
      else if (joining == largest) value = next > value || next != next ? next : value;
      else if (joining == smallest) value = next < value || next != next ? next : value;
      else value += next;
    }
    if (joining == mean && parts > 1) value /= static_cast<double>(parts);
    y[at] = from_float<T>(static_cast<float>(value));
  }
};

template <class T>
Call scatter(Device& device, const Op& op) {
  using S = Scatter<T>;
  static const std::map<std::string, typename S::Joining> names = {
      {"put", S::put}, {"sum", S::sum}, {"mean", S::mean}, {"amax", S::largest}, {"amin", S::smallest}};
  int64_t count = op.integer("count"), inner = op.integer("inner"), outer = op["x"].size / (count * inner), size = op["y"].size;
  S body{op["x"].as<T>(), op["base"].as<T>(), op["index"].as<int64_t>(), op["y"].as<T>(), count, inner, size / (outer * inner),
         names.at(op.attributes["operation"].as_text()), op.attributes["include_self"].boolean};
  return for_each(device, size, body);
}

// Sums or means of the rows of each bag, which begins at its offset. Also the bag of each row, and the sizes of the bags.
template <class T>
struct BagRows {
  const T* w;
  const int64_t *index, *offsets;
  T* y;
  int64_t *bag_of, *sizes;
  int64_t count, bags, width;
  bool mean;

  __device__ void operator()(int64_t at) const {
    int64_t bag = at / width, column = at % width, begin = offsets[bag], end = bag + 1 < bags ? offsets[bag + 1] : count;
    double sum = 0;
    for (int64_t i = begin; i < end; ++i) {
      sum += to_double(w[index[i] * width + column]);
      if (bag_of && column == 0) bag_of[i] = bag;
    }
    if (mean && end > begin) sum /= static_cast<double>(end - begin);
    y[at] = from_float<T>(static_cast<float>(sum));
    if (sizes && column == 0) sizes[bag] = end - begin;
  }
};

template <class T>
Call bag_rows(Device& device, const Op& op) {
  BagRows<T> body{op["w"].as<T>(), op["index"].as<int64_t>(), op["offsets"].as<int64_t>(), op["y"].as<T>(), find<int64_t>(op, "bag"),
                  find<int64_t>(op, "sizes"), op["index"].size, op["y"].shape[0], op["y"].shape[1], op.attributes["mean"].boolean};
  return for_each(device, op["y"].size, body);
}

// The first elements of each row in falling or rising order, and their places. A NaN is the largest, and equal elements
// keep their order, as in torch. A thread counts the elements that come before its own.
template <class T>
struct Order {
  const T* x;
  T* y;
  int64_t* places;
  int64_t width, kept;
  bool falling;

  __device__ bool less(float a, float b) const { return a < b || (b != b && a == a); }
  __device__ void operator()(int64_t at) const {
    int64_t row = at / width, own = at % width, rank = 0;
    const T* from = x + row * width;
    float value = to_float(from[own]);
    for (int64_t i = 0; i < width; ++i) {
      float other = to_float(from[i]);
      bool before = falling ? less(value, other) : less(other, value), after = falling ? less(other, value) : less(value, other);
      rank += before || (!after && i < own);
    }
    if (rank >= kept) return;
    y[row * kept + rank] = from[own];
    places[row * kept + rank] = own;
  }
};

template <class T>
Call order(Device& device, const Op& op) {
  int64_t width = op["x"].shape.back();
  Order<T> body{op["x"].as<T>(), op["y"].as<T>(), op["places"].as<int64_t>(), width, op["y"].shape.back(), op.attributes["falling"].boolean};
  return for_each(device, op["x"].size, body);
}

// What values of a type are compared as.
__device__ inline int64_t comparable(int64_t value) { return value; }
template <class T>
__device__ inline float comparable(T value) {
  return to_float(value);
}

// The first place of the largest or smallest element of each row, or of a NaN. A block has one row.
template <class T>
__global__ void __launch_bounds__(row_threads) extremes(const T* x, int64_t* y, int64_t width, bool smallest) {
  __shared__ int64_t places[row_threads];
  const T* row = x + blockIdx.x * width;
  auto better = [=](int64_t a, int64_t b) {
    auto left = comparable(row[a]), right = comparable(row[b]);
    bool is_nan = left != left, other_is_nan = right != right;
    if (is_nan || other_is_nan) return is_nan && (!other_is_nan || a < b);
    return (smallest ? left < right : left > right) || (left == right && a < b);
  };
  int64_t best = threadIdx.x < width ? threadIdx.x : 0;
  for (int64_t i = threadIdx.x; i < width; i += row_threads)
    if (better(i, best)) best = i;
  places[threadIdx.x] = best;
  __syncthreads();
  if (threadIdx.x) return;
  for (int i = 1; i < row_threads; ++i)
    if (better(places[i], best)) best = places[i];
  y[blockIdx.x] = best;
}

template <class T>
Call place_of_extreme(Device& device, const Op& op) {
  const T* x = op["x"].as<T>();
  int64_t* y = op["y"].as<int64_t>();
  int64_t rows = op["y"].size, width = op["x"].size / rows;
  bool smallest = op.attributes["smallest"].boolean;
  return [=, stream = device.stream] { start(extremes<T>, static_cast<unsigned>(rows), row_threads, stream, x, y, width, smallest); };
}

template <class T>
__device__ inline T from_double(double value) {
  return from_float<T>(static_cast<float>(value));
}
template <>
__device__ inline int64_t from_double(double value) {
  return static_cast<int64_t>(value);
}

// The sums of the first elements of each row. A block has one row. Integers are exact in double up to 2^53.
template <class T>
__global__ void __launch_bounds__(row_threads) running_sums(const T* x, T* y, int64_t width) {
  __shared__ double parts[2][row_threads];
  int64_t row = blockIdx.x * width;
  int thread = static_cast<int>(threadIdx.x);
  double before = 0;
  for (int64_t begin = 0; begin < width; begin += row_threads) {
    int64_t i = begin + thread;
    int now = 0;
    parts[0][thread] = i < width ? to_double(x[row + i]) : 0;
    __syncthreads();
    for (int off = 1; off < row_threads; off *= 2, now = 1 - now) {
      parts[1 - now][thread] = parts[now][thread] + (thread >= off ? parts[now][thread - off] : 0);
      __syncthreads();
    }
    if (i < width) y[row + i] = from_double<T>(before + parts[now][thread]);
    before += parts[now][row_threads - 1];
    __syncthreads();
  }
}

template <class T>
Call cumulate(Device& device, const Op& op) {
  const T* x = op["x"].as<T>();
  T* y = op["y"].as<T>();
  int64_t width = op["x"].shape.back(), rows = op["x"].size / width;
  return [=, stream = device.stream] { start(running_sums<T>, static_cast<unsigned>(rows), row_threads, stream, x, y, width); };
}

}  // namespace tare::vendor

// Ops on rows that other numbers name or order: scattering, bags, sorting, running sums.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace tare::ops {

// `count` rows of x go to rows of y by their index; y has `rows` rows.
struct Rows {
  int64_t count, rows, width;
};

// Adds row i of x to row index[i] of y, in the order of i. Rows of the index `skip` are left out. y begins as `base`, or as
// zeros where that is null.
inline void add_rows(const float* x, const int64_t* index, const float* base, float* y, const Rows& shape, int64_t skip) {
  auto [count, rows, width] = shape;
  if (base) std::memcpy(y, base, rows * width * sizeof(float));
  else std::memset(y, 0, rows * width * sizeof(float));
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = index[i] < 0 ? index[i] + rows : index[i];
    if ((index[i] == skip && skip >= 0) || at < 0 || at >= rows) continue;
    float* to = y + at * width;
    const float* from = x + i * width;
    for (int64_t j = 0; j < width; ++j) to[j] += from[j];
  }
}

// The same, but a row replaces what was there.
inline void put_rows(const float* x, const int64_t* index, const float* base, float* y, const Rows& shape) {
  auto [count, rows, width] = shape;
  if (base) std::memcpy(y, base, rows * width * sizeof(float));
  else std::memset(y, 0, rows * width * sizeof(float));
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = index[i] < 0 ? index[i] + rows : index[i];
    if (at >= 0 && at < rows) std::memcpy(y + at * width, x + i * width, width * sizeof(float));
  }
}

enum class Scattering { put, sum, mean, amax, amin };

// Tensors of outer x count x inner (x) and outer x rows x inner (y).
struct Scatter {
  int64_t outer, count, rows, inner;
  Scattering operation;
  bool include_self;
};

// y begins as base. Element (i, j) of each outer part of x goes to element (index(i, j), j) of y's: it replaces it, or is
// added to it, ... Without `include_self`, an element that anything goes to forgets what it was.
inline void scatter(const float* x, const int64_t* index, const float* base, float* y, const Scatter& shape) {
  auto [outer, count, rows, inner, operation, keeps] = shape;
  int64_t size = outer * rows * inner;
  bool puts = operation == Scattering::put, means = operation == Scattering::mean;
  std::memcpy(y, base, size * sizeof(float));
  std::vector<int64_t> parts(puts || (keeps && !means) ? 0 : size, keeps ? 1 : 0);
  for (int64_t from = 0; from < outer * count * inner; ++from) {
    int64_t at = index[from] < 0 ? index[from] + rows : index[from];
    if (at < 0 || at >= rows) continue;
    at = (from / (count * inner) * rows + at) * inner + from % inner;
    bool is_first = !parts.empty() && parts[at]++ == 0;
    if (is_first || puts) y[at] = x[from];
    else if (operation == Scattering::amax) y[at] = x[from] > y[at] || x[from] != x[from] ? x[from] : y[at];
    else if (operation == Scattering::amin) y[at] = x[from] < y[at] || x[from] != x[from] ? x[from] : y[at];
    else y[at] += x[from];
  }
  if (means)
    for (int64_t at = 0; at < size; ++at) y[at] /= static_cast<float>(std::max<int64_t>(parts[at], 1));
}

// Bags of rows of w, each from its offset on to that of the next bag.
struct Bags {
  int64_t count, bags, width;
  bool mean;
};

// Sums or means of the rows of each bag. Also the bag of each row, and the sizes of the bags, where anybody wants them.
inline void bag_rows(const float* w, const int64_t* index, const int64_t* offsets, float* y, int64_t* bag_of, int64_t* sizes,
                     const Bags& shape) {
  auto [count, bags, width, mean] = shape;
  for (int64_t bag = 0; bag < bags; ++bag) {
    int64_t begin = offsets[bag], end = bag + 1 < bags ? offsets[bag + 1] : count;
    float* to = y + bag * width;
    std::memset(to, 0, width * sizeof(float));
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t j = 0; j < width; ++j) to[j] += w[index[i] * width + j];
      if (bag_of) bag_of[i] = bag;
    }
    if (mean && end > begin) for (int64_t j = 0; j < width; ++j) to[j] /= static_cast<float>(end - begin);
    if (sizes) sizes[bag] = end - begin;
  }
}

// The first `kept` elements of each row in falling or rising order, and their places. A NaN is the largest, as in torch.
inline void order(const float* x, float* y, int64_t* places, int64_t rows, int64_t width, int64_t kept, bool falling) {
  std::vector<int64_t> ranks(width);
  for (int64_t row = 0; row < rows; ++row) {
    const float* from = x + row * width;
    for (int64_t i = 0; i < width; ++i) ranks[i] = i;
    auto less = [=](int64_t a, int64_t b) { return from[a] < from[b] || (from[b] != from[b] && from[a] == from[a]); };
    std::stable_sort(ranks.begin(), ranks.end(), [=](int64_t a, int64_t b) { return falling ? less(b, a) : less(a, b); });
    for (int64_t i = 0; i < kept; ++i) {
      places[row * kept + i] = ranks[i];
      y[row * kept + i] = from[ranks[i]];
    }
  }
}

// The first place of the largest or smallest element of each row, or of a NaN.
template <class T>
void place_of_extreme(const T* x, int64_t* y, int64_t rows, int64_t width, bool smallest) {
  T sign = smallest ? -1 : 1;
  for (int64_t row = 0; row < rows; ++row) {
    const T* from = x + row * width;
    int64_t best = 0;
    for (int64_t i = 1; i < width && from[best] == from[best]; ++i)
      if (sign * from[i] > sign * from[best] || from[i] != from[i]) best = i;
    y[row] = best;
  }
}

// The sums of the first elements of each row.
template <class T>
void cumulate(const T* x, T* y, int64_t rows, int64_t width) {
  for (int64_t row = 0; row < rows; ++row) {
    // Integers are exact in double up to 2^53, which counts of elements do not reach.
    double sum = 0;
    for (int64_t i = row * width; i < (row + 1) * width; ++i) y[i] = static_cast<T>(sum += static_cast<double>(x[i]));
  }
}

}  // namespace tare::ops

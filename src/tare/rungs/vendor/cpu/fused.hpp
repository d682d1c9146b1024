// Kernels that were generated for a plan, from a library beside it, and products and rows at any strides.
#pragma once

#include <dlfcn.h>

#include <algorithm>

#include "../program.hpp"
#include "blas.hpp"
#include "team.hpp"

namespace tare::vendor {

// Elements for which a second thread pays.
constexpr int64_t elements_per_thread = 1 << 15;

class KernelLibrary {
 public:
  explicit KernelLibrary(const std::string& path) : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (!handle_) throw Failure("exception", std::string("cannot load the generated kernels: ") + dlerror());
  }
  ~KernelLibrary() { dlclose(handle_); }

  using Kernel = void (*)(char* const*, int64_t, int64_t);

  Kernel find(const std::string& name) const {
    void* symbol = dlsym(handle_, name.c_str());
    if (!symbol) throw Failure("exception", "the generated kernels lack " + name);
    return reinterpret_cast<Kernel>(symbol);
  }

 private:
  void* handle_;
};

inline Call fused(const Op& op, const KernelLibrary& library, Team& team) {
  auto kernel = library.find(op.attributes["kernel"].as_text());
  std::vector<char*> buffers;
  for (size_t i = 0; i < op.in.size(); ++i) buffers.push_back(op["i" + std::to_string(i)].data);
  for (size_t i = 0; i < op.out.size(); ++i) buffers.push_back(op["o" + std::to_string(i)].data);
  int64_t rows = op.integer("rows"), pieces = op.integer("work") / elements_per_thread;
  return [=, &team] {
    char* const* data = buffers.data();
    team.share(rows, pieces, [=](int64_t begin, int64_t end) { kernel(data, begin, end); });
  };
}

// y = a b over leading dimensions; a and b at their own strides, y contiguous.
inline Call matmul(const Op& op) {
  auto batch = op.integers("batch"), a_strides = op.integers("a_strides"), b_strides = op.integers("b_strides");
  int64_t m = op.integer("m"), n = op.integer("n"), k = op.integer("k"), count = 1;
  for (int64_t size : batch) count *= size;
  const float *a = floats(op, "a") + op.integer("a_offset"), *b = floats(op, "b") + op.integer("b_offset");
  float *y = op["y"].as<float>(), alpha = static_cast<float>(op.number("alpha"));
  size_t leading = batch.size();
  // BLAS takes a matrix by rows, or by columns as its transpose.
  auto layout = [&](const std::vector<int64_t>& strides, int64_t rows, int64_t columns) {
    int64_t row = strides[leading], column = strides[leading + 1];
    bool by_rows = (column == 1 || columns == 1) && (row >= columns || rows == 1);
    return std::make_pair(!by_rows, std::max(by_rows ? row : column, by_rows ? columns : rows));
  };
  auto [a_turned, a_pitch] = layout(a_strides, m, k);
  auto [b_turned, b_pitch] = layout(b_strides, k, n);
  std::vector<std::pair<int64_t, int64_t>> offsets(count);
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i;
    for (size_t d = leading; d-- > 0;) {
      int64_t at = rest % batch[d];
      rest /= batch[d];
      offsets[i].first += at * a_strides[d];
      offsets[i].second += at * b_strides[d];
    }
  }
  return [=, a_turned = a_turned, a_pitch = a_pitch, b_turned = b_turned, b_pitch = b_pitch] {
    for (int64_t i = 0; i < count; ++i)
      gemm(a_turned, b_turned, m, n, k, a + offsets[i].first, a_pitch, b + offsets[i].second, b_pitch, 0, y + i * m * n, n, alpha);
  };
}

// Adds row i of x to row index[i] of y, or puts it there, in the order of i. Rows of the index `skip` are left out when
// adding. y begins as `base`, or as zeros.
inline Call scatter_rows(const Op& op, bool adds) {
  const float *x = floats(op, "x"), *base = floats(op, "base");
  const int64_t* index = op["index"].as<int64_t>();
  float* y = op["y"].as<float>();
  int64_t count = op["index"].size, rows = op["y"].shape[0], width = op["y"].size / rows, skip = op.integer("skip");
  int64_t bytes = op["y"].bytes();
  return [=] {
    if (base) std::memcpy(y, base, bytes);
    else std::memset(y, 0, bytes);
    for (int64_t i = 0; i < count; ++i) {
      int64_t at = index[i] < 0 ? index[i] + rows : index[i];
      if ((adds && index[i] == skip && skip >= 0) || at < 0 || at >= rows) continue;
      float* to = y + at * width;
      const float* from = x + i * width;
      if (adds) for (int64_t j = 0; j < width; ++j) to[j] += from[j];
      else std::memcpy(to, from, width * sizeof(float));
    }
  };
}

// y begins as base. Element (i, j) of each outer part of x goes to element (index(i, j), j) of y's: it replaces it, or is
// added to it, ... Without `include_self`, an element that anything goes to forgets what it was.
inline Call scatter(const Op& op) {
  const float *x = floats(op, "x"), *base = floats(op, "base");
  const int64_t* index = op["index"].as<int64_t>();
  float* y = op["y"].as<float>();
  int64_t count = op.integer("count"), inner = op.integer("inner"), outer = op["x"].size / (count * inner);
  int64_t size = op["y"].size, rows = size / (outer * inner);
  std::string operation = op.attributes["operation"].as_text();
  bool keeps = op.attributes["include_self"].boolean, puts = operation == "put", means = operation == "mean";
  bool largest = operation == "amax", smallest = operation == "amin";
  return [=] {
    std::memcpy(y, base, size * sizeof(float));
    std::vector<int64_t> parts(puts || (keeps && !means) ? 0 : size, keeps ? 1 : 0);
    for (int64_t from = 0; from < outer * count * inner; ++from) {
      int64_t at = index[from] < 0 ? index[from] + rows : index[from];
      if (at < 0 || at >= rows) continue;
      at = (from / (count * inner) * rows + at) * inner + from % inner;
      bool is_first = !parts.empty() && parts[at]++ == 0;
      if (is_first || puts) y[at] = x[from];
      else if (largest) y[at] = x[from] > y[at] || x[from] != x[from] ? x[from] : y[at];
      else if (smallest) y[at] = x[from] < y[at] || x[from] != x[from] ? x[from] : y[at];
      else y[at] += x[from];
    }
    if (means)
      for (int64_t at = 0; at < size; ++at) y[at] /= static_cast<float>(std::max<int64_t>(parts[at], 1));
  };
}

// Sums or means of the rows of each bag, which begins at its offset. Also the bag of each row, and the sizes of the bags.
inline Call bag_rows(const Op& op) {
  const float* w = floats(op, "w");
  const int64_t *index = op["index"].as<int64_t>(), *offsets = op["offsets"].as<int64_t>();
  float* y = op["y"].as<float>();
  Value *bag_of = op.find("bag"), *sizes = op.find("sizes");
  int64_t count = op["index"].size, bags = op["y"].shape[0], width = op["y"].shape[1];
  bool mean = op.attributes["mean"].boolean;
  return [=] {
    for (int64_t bag = 0; bag < bags; ++bag) {
      int64_t begin = offsets[bag], end = bag + 1 < bags ? offsets[bag + 1] : count;
      float* to = y + bag * width;
      std::memset(to, 0, width * sizeof(float));
      for (int64_t i = begin; i < end; ++i) {
        for (int64_t j = 0; j < width; ++j) to[j] += w[index[i] * width + j];
        if (bag_of) bag_of->as<int64_t>()[i] = bag;
      }
      if (mean && end > begin) for (int64_t j = 0; j < width; ++j) to[j] /= static_cast<float>(end - begin);
      if (sizes) sizes->as<int64_t>()[bag] = end - begin;
    }
  };
}

// The first elements of each row in falling or rising order, and their places. A NaN is the largest, as in torch.
inline Call order(const Op& op) {
  const float* x = floats(op, "x");
  float* y = op["y"].as<float>();
  int64_t* places = op["places"].as<int64_t>();
  int64_t width = op["x"].shape.back(), kept = op["y"].shape.back(), rows = op["x"].size / width;
  bool falling = op.attributes["falling"].boolean;
  return [=] {
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
  };
}

// The first place of the largest or smallest element of each row, or of a NaN.
template <class T>
Call place_of_extreme(const Op& op) {
  const T* x = op["x"].as<T>();
  int64_t* y = op["y"].as<int64_t>();
  int64_t rows = op["y"].size, width = op["x"].size / rows;
  T sign = op.attributes["smallest"].boolean ? -1 : 1;
  return [=] {
    for (int64_t row = 0; row < rows; ++row) {
      const T* from = x + row * width;
      int64_t best = 0;
      for (int64_t i = 1; i < width && from[best] == from[best]; ++i)
        if (sign * from[i] > sign * from[best] || from[i] != from[i]) best = i;
      y[row] = best;
    }
  };
}

// The sums of the first elements of each row.
template <class T>
Call cumulate(const Op& op) {
  const T* x = op["x"].as<T>();
  T* y = op["y"].as<T>();
  int64_t width = op["x"].shape.back(), rows = op["x"].size / width;
  return [=] {
    for (int64_t row = 0; row < rows; ++row) {
      // Integers are exact in double up to 2^53, which counts of elements do not reach.
      double sum = 0;
      for (int64_t i = row * width; i < (row + 1) * width; ++i) y[i] = static_cast<T>(sum += static_cast<double>(x[i]));
    }
  };
}

}  // namespace tare::vendor

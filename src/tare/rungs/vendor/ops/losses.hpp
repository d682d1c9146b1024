// Softmax and the losses, each with its gradient. x is rows x size.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace tare::ops {

inline double log_sum(const float* row, int64_t size) {
  float max_value = *std::max_element(row, row + size);
  double sum = 0;
  for (int64_t i = 0; i < size; ++i) sum += std::exp(static_cast<double>(row[i] - max_value));
  return max_value + std::log(sum);
}

inline void log_softmax(const float* x, float* y, int64_t rows, int64_t size) {
  for (int64_t row = 0; row < rows; ++row) {
    double log = log_sum(x + row * size, size);
    for (int64_t i = row * size; i < (row + 1) * size; ++i) y[i] = static_cast<float>(x[i] - log);
  }
}

inline void cross_entropy(const float* x, const int64_t* target, float* loss, float* dx, int64_t rows, int64_t size) {
  double total = 0;
  for (int64_t row = 0; row < rows; ++row) {
    double log = log_sum(x + row * size, size);
    for (int64_t i = 0; i < size; ++i) {
      double share = std::exp(x[row * size + i] - log) - (i == target[row]);
      dx[row * size + i] = static_cast<float>(share / rows);
    }
    total += log - x[row * size + target[row]];
  }
  *loss = static_cast<float>(total / rows);
}

inline void mean_square(const float* x, const float* target, float* loss, float* dx, int64_t size) {
  double total = 0;
  for (int64_t i = 0; i < size; ++i) {
    float off = x[i] - target[i];
    total += static_cast<double>(off) * off;
    dx[i] = 2 * off / size;
  }
  *loss = static_cast<float>(total / size);
}

}  // namespace tare::ops

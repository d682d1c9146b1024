// Softmax and the losses, each with its gradient.
#pragma once

#include <algorithm>
#include <cmath>

#include "channels.hpp"

namespace tare::vendor {

inline double log_sum(const float* row, int64_t size) {
  float max_value = *std::max_element(row, row + size);
  double sum = 0;
  for (int64_t i = 0; i < size; ++i) sum += std::exp(static_cast<double>(row[i] - max_value));
  return max_value + std::log(sum);
}

inline Call log_softmax(const Op& op) {
  const float* x = floats(op, "x");
  float* y = op["y"].as<float>();
  int64_t rows = op["x"].shape[0], size = op["x"].shape[1];
  return [=] {
    for (int64_t row = 0; row < rows; ++row) {
      double log = log_sum(x + row * size, size);
      for (int64_t i = row * size; i < (row + 1) * size; ++i) y[i] = static_cast<float>(x[i] - log);
    }
  };
}

inline Call cross_entropy(const Op& op) {
  const float* x = floats(op, "x");
  const int64_t* target = op["target"].as<int64_t>();
  float *loss = op["loss"].as<float>(), *dx = op["dx"].as<float>();
  int64_t rows = op["x"].shape[0], size = op["x"].shape[1];
  return [=] {
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
  };
}

inline Call mean_square(const Op& op) {
  const float *x = floats(op, "x"), *target = floats(op, "target");
  float *loss = op["loss"].as<float>(), *dx = op["dx"].as<float>();
  int64_t size = op["x"].size;
  return [=] {
    double total = 0;
    for (int64_t i = 0; i < size; ++i) {
      float off = x[i] - target[i];
      total += static_cast<double>(off) * off;
      dx[i] = 2 * off / size;
    }
    *loss = static_cast<float>(total / size);
  };
}

}  // namespace tare::vendor

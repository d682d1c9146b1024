// Permutations of dimensions, and copies of blocks into or out of a tensor.
#pragma once

#include "channels.hpp"

namespace tare::vendor {

// Dimension d of y is dimension order[d] of x.
inline Call permute(const Op& op) {
  const float* x = floats(op, "x");
  float* y = op["y"].as<float>();
  std::vector<int64_t> shape = op["y"].shape, to = op["y"].strides, from;
  for (int64_t d : op.integers("order")) from.push_back(op["x"].strides[d]);
  int64_t size = op["y"].size;
  return [=] {
    std::vector<int64_t> index(shape.size(), 0);
    for (int64_t i = 0; i < size; ++i) {
      int64_t source = 0, target = 0;
      for (size_t d = 0; d < index.size(); ++d) source += index[d] * from[d], target += index[d] * to[d];
      y[target] = x[source];
      for (size_t d = index.size(); d-- > 0;) {
        if (++index[d] < shape[d]) break;
        index[d] = 0;
      }
    }
  };
}

// Rows of one width; source and target have their own pitch and offset.
inline Call copy_block(const Op& op) {
  const float* x = floats(op, "x") + op.integer("from_offset");
  float *all = op["y"].as<float>(), *y = all + op.integer("to_offset");
  int64_t rows = op.integer("rows"), width = op.integer("width"), from = op.integer("from_pitch"), to = op.integer("to_pitch");
  int64_t cleared = op.attributes["clear"].boolean ? op["y"].bytes() : 0;
  return [=] {
    std::memset(all, 0, cleared);
    for (int64_t row = 0; row < rows; ++row) std::memcpy(y + row * to, x + row * from, width * sizeof(float));
  };
}

}  // namespace tare::vendor

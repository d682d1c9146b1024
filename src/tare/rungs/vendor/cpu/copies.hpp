// Permutations and copies of blocks in a plan.
#pragma once

#include "../ops/copies.hpp"
#include "values.hpp"

namespace tare::vendor {

// Dimension d of y is dimension order[d] of x.
inline Call permute(const Op& op) {
  const float* x = floats(op, "x");
  float* y = op["y"].as<float>();
  ops::Permutation permutation{op["y"].shape, {}, op["y"].strides};
  for (int64_t d : op.integers("order")) permutation.from.push_back(op["x"].strides[d]);
  return [=] { ops::permute(x, y, permutation); };
}

inline Call copy_block(const Op& op) {
  const char* x = op["x"].data;
  char* y = op["y"].data;
  int64_t cleared = op.attributes["clear"].boolean ? op["y"].bytes() : 0;
  ops::Block block{op.integer("rows"),     op.integer("width"),     op.integer("from_pitch"), op.integer("from_offset"),
                   op.integer("to_pitch"), op.integer("to_offset"), cleared};
  return [=] { ops::copy_block(x, y, block); };
}

}  // namespace tare::vendor

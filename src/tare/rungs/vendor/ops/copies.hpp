// Permutations of dimensions, and copies of blocks into or out of a tensor.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

namespace tare::ops {

// An element moves by `from` in x and by `to` in y along each dimension of the result.
struct Permutation {
  std::vector<int64_t> shape, from, to;
};

inline void permute(const float* x, float* y, const Permutation& p) {
  std::vector<int64_t> index(p.shape.size(), 0);
  int64_t size = 1;
  for (int64_t n : p.shape) size *= n;
  for (int64_t i = 0; i < size; ++i) {
    int64_t source = 0, target = 0;
    for (size_t d = 0; d < index.size(); ++d) source += index[d] * p.from[d], target += index[d] * p.to[d];
    y[target] = x[source];
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < p.shape[d]) break;
      index[d] = 0;
    }
  }
}

// Rows of one width; source and target have their own pitch and offset, in elements. The first `cleared` bytes of y are
// zeroed before.
struct Block {
  int64_t rows, width, from_pitch, from_offset, to_pitch, to_offset, cleared = 0;
};

inline void copy_block(const void* x, void* y, const Block& block) {
  const float* from = static_cast<const float*>(x) + block.from_offset;
  float* to = static_cast<float*>(y) + block.to_offset;
  if (block.cleared) std::memset(y, 0, block.cleared);
  for (int64_t row = 0; row < block.rows; ++row)
    std::memcpy(to + row * block.to_pitch, from + row * block.from_pitch, block.width * sizeof(float));
}

}  // namespace tare::ops

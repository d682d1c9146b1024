// Matrix products over leading dimensions, at any strides.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "blas.hpp"

namespace tare::ops {

// y = alpha a b, m x k times k x n for each of the batch. The strides are those of the batch, of rows and of columns; y is
// contiguous.
class Product {
 public:
  Product(int64_t m, int64_t n, int64_t k, const std::vector<int64_t>& batch, const std::vector<int64_t>& a_strides,
          const std::vector<int64_t>& b_strides, float alpha = 1)
      : m_(m), n_(n), k_(k), alpha_(alpha), a_(batch.size(), a_strides, m, k), b_(batch.size(), b_strides, k, n) {
    int64_t count = 1;
    for (int64_t size : batch) count *= size;
    offsets_.resize(count);
    for (int64_t i = 0; i < count; ++i) {
      int64_t rest = i;
      for (size_t d = batch.size(); d-- > 0;) {
        int64_t at = rest % batch[d];
        rest /= batch[d];
        offsets_[i].first += at * a_strides[d];
        offsets_[i].second += at * b_strides[d];
      }
    }
  }

  void operator()(const float* a, const float* b, float* y) const {
    for (const auto& [a_offset, b_offset] : offsets_) {
      gemm(a_.turned, b_.turned, m_, n_, k_, a + a_offset, a_.pitch, b + b_offset, b_.pitch, 0, y, n_, alpha_);
      y += m_ * n_;
    }
  }

 private:
  // BLAS takes a matrix by rows, or by columns as its transpose.
  struct Layout {
    Layout(size_t leading, const std::vector<int64_t>& strides, int64_t rows, int64_t columns) {
      int64_t row = strides[leading], column = strides[leading + 1];
      bool by_rows = (column == 1 || columns == 1) && (row >= columns || rows == 1);
      turned = !by_rows;
      pitch = std::max(by_rows ? row : column, by_rows ? columns : rows);
    }
    bool turned;
    int64_t pitch;
  };

  int64_t m_, n_, k_;
  float alpha_;
  Layout a_, b_;
  std::vector<std::pair<int64_t, int64_t>> offsets_;
};

inline void matmul(const float* a, const float* b, float* y, const Product& product) { product(a, b, y); }

}  // namespace tare::ops

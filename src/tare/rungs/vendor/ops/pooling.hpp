// Pooling over windows of an image.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace tare::ops {

struct Pool {
  // Images of n x c x h x w, and what they are pooled to.
  std::array<int64_t, 4> image, pooled;
  std::array<int64_t, 2> kernel, stride, padding;
  // Windows follow from the sizes alone, and overlap where those do not divide.
  bool adaptive = false, channels_last = false;

  // Where a window begins along one side, and how long it is. Parts of it may lie outside the image.
  int64_t begin(int d, int64_t p) const { return adaptive ? p * image[2 + d] / pooled[2 + d] : p * stride[d] - padding[d]; }
  int64_t length(int d, int64_t p) const {
    if (!adaptive) return kernel[d];
    int64_t n = pooled[2 + d];
    return ((p + 1) * image[2 + d] + n - 1) / n - begin(d, p);
  }

  std::array<int64_t, 4> strides(const std::array<int64_t, 4>& shape) const {
    auto [n, c, h, w] = shape;
    if (channels_last) return {h * w * c, 1, w * c, c};
    return {c * h * w, h * w, w, 1};
  }

  int64_t elements() const { return image[0] * image[1] * image[2] * image[3]; }

  // For every output: `open(offset, window size)`, then `tap(offset in the image, position in the window)` for every tap
  // inside the image, then `close(offset)`.
  template <class Open, class Tap, class Close>
  void each(Open open, Tap tap, Close close) const {
    const auto &n = pooled, from = strides(image), to = strides(pooled);
    for (int64_t a = 0; a < n[0]; ++a)
      for (int64_t c = 0; c < n[1]; ++c)
        for (int64_t p = 0; p < n[2]; ++p)
          for (int64_t q = 0; q < n[3]; ++q) {
            int64_t at = a * to[0] + c * to[1] + p * to[2] + q * to[3];
            int64_t height = length(0, p), width = length(1, q);
            open(at, height * width);
            for (int64_t i = 0; i < height; ++i)
              for (int64_t j = 0; j < width; ++j) {
                int64_t row = begin(0, p) + i, col = begin(1, q) + j;
                if (row < 0 || col < 0 || row >= image[2] || col >= image[3]) continue;
                tap(a * from[0] + c * from[1] + row * from[2] + col * from[3], i * width + j);
              }
            close(at);
          }
  }
};

// As in torch: a NaN is the largest of its window (the last one, if there are several), and where every value is minus
// infinity, the position is that of the first tap inside the image. The gradient needs the positions, if anybody does.
inline void max_pool(const float* x, float* y, uint8_t* index, const Pool& pool) {
  float max_value = 0;
  uint8_t place = 0;
  bool none = true;
  pool.each([&](int64_t, int64_t) { none = true; },
            [&](int64_t at, int64_t tap) {
              if (none || x[at] > max_value || std::isnan(x[at])) {
                max_value = x[at];
                place = static_cast<uint8_t>(tap);
                none = false;
              }
            },
            [&](int64_t at) {
              y[at] = max_value;
              if (index) index[at] = place;
            });
}

inline void max_pool_backward(const float* dy, const uint8_t* index, float* dx, const Pool& pool) {
  std::memset(dx, 0, pool.elements() * sizeof(float));
  int64_t out = 0;
  pool.each([&](int64_t at, int64_t) { out = at; },
            [&](int64_t at, int64_t tap) {
              if (index[out] == tap) dx[at] += dy[out];
            },
            [](int64_t) {});
}

inline void average_pool(const float* x, float* y, const Pool& pool) {
  double sum = 0;
  int64_t count = 1;
  pool.each([&](int64_t, int64_t size) { sum = 0, count = size; }, [&](int64_t at, int64_t) { sum += x[at]; },
            [&](int64_t at) { y[at] = static_cast<float>(sum / count); });
}

inline void average_pool_backward(const float* dy, float* dx, const Pool& pool) {
  float share = 0;
  std::memset(dx, 0, pool.elements() * sizeof(float));
  pool.each([&](int64_t at, int64_t size) { share = dy[at] / size; }, [&](int64_t at, int64_t) { dx[at] += share; },
            [](int64_t) {});
}

}  // namespace tare::ops

// Pooling over windows of an image.
#pragma once

#include <cmath>

#include "../program.hpp"

namespace tare::vendor {

struct Pool {
  Pool(const Op& op, const Value& x, const Value& y)
      : image(x), pooled(y), kernel(op.integers("kernel")), stride(op.integers("stride")), padding(op.integers("padding")),
        adaptive(op.attributes["adaptive"].boolean) {}

  // Where a window begins along one side, and how long it is. Parts of it may lie outside the image.
  int64_t begin(int d, int64_t p) const { return adaptive ? p * image.shape[2 + d] / pooled.shape[2 + d] : p * stride[d] - padding[d]; }
  int64_t length(int d, int64_t p) const {
    if (!adaptive) return kernel[d];
    int64_t n = pooled.shape[2 + d];
    return ((p + 1) * image.shape[2 + d] + n - 1) / n - begin(d, p);
  }

  // For every output: `open(offset, window size)`, then `tap(offset in the image, position in the window)` for every tap
  // inside the image, then `close(offset)`.
  template <class Open, class Tap, class Close>
  void each(Open open, Tap tap, Close close) const {
    const auto &n = pooled.shape, &from = image.strides, &to = pooled.strides;
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
                if (row < 0 || col < 0 || row >= image.shape[2] || col >= image.shape[3]) continue;
                tap(a * from[0] + c * from[1] + row * from[2] + col * from[3], i * width + j);
              }
            close(at);
          }
  }

  Value image, pooled;
  std::vector<int64_t> kernel, stride, padding;
  bool adaptive;
};

// As in torch: a NaN is the largest of its window (the last one, if there are several), and where every value is minus
// infinity, the position is that of the first tap inside the image.
inline Call max_pool(const Op& op) {
  Pool pool(op, op["x"], op["y"]);
  uint8_t* index = op.find("index") ? op["index"].as<uint8_t>() : nullptr;
  return [=] {
    const float* x = pool.image.as<float>();
    float *y = pool.pooled.as<float>(), max_value = 0;
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
  };
}

inline Call max_pool_backward(const Op& op) {
  Pool pool(op, op["dx"], op["dy"]);
  const uint8_t* index = op["index"].as<uint8_t>();
  return [=] {
    const float* dy = pool.pooled.as<float>();
    float* dx = pool.image.as<float>();
    std::memset(dx, 0, pool.image.bytes());
    int64_t out = 0;
    pool.each([&](int64_t at, int64_t) { out = at; },
              [&](int64_t at, int64_t tap) {
                if (index[out] == tap) dx[at] += dy[out];
              },
              [](int64_t) {});
  };
}

inline Call average_pool(const Op& op) {
  Pool pool(op, op["x"], op["y"]);
  return [=] {
    const float* x = pool.image.as<float>();
    float* y = pool.pooled.as<float>();
    double sum = 0;
    int64_t count = 1;
    pool.each([&](int64_t, int64_t size) { sum = 0, count = size; }, [&](int64_t at, int64_t) { sum += x[at]; },
              [&](int64_t at) { y[at] = static_cast<float>(sum / count); });
  };
}

inline Call average_pool_backward(const Op& op) {
  Pool pool(op, op["dx"], op["dy"]);
  return [=] {
    const float* dy = pool.pooled.as<float>();
    float *dx = pool.image.as<float>(), share = 0;
    std::memset(dx, 0, pool.image.bytes());
    pool.each([&](int64_t at, int64_t size) { share = dy[at] / size; },
              [&](int64_t at, int64_t) { dx[at] += share; }, [](int64_t) {});
  };
}

}  // namespace tare::vendor

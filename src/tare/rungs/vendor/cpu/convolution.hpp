// Convolutions as matrix products over unrolled windows (im2col).
#pragma once

#include "../program.hpp"
#include "blas.hpp"

namespace tare::vendor {

struct Convolution {
  Convolution(const Op& op, const Value& x, const Value& w, const Value& y)
      : n(x.shape[0]), c(x.shape[1]), h(x.shape[2]), width(x.shape[3]), k(y.shape[1]), p(y.shape[2]), q(y.shape[3]),
        r(w.shape[2]), s(w.shape[3]), groups(op.integer("groups")), stride(op.integers("stride")),
        padding(op.integers("padding")), dilation(op.integers("dilation")), last(w.channels_last()) {
    direct = r == 1 && s == 1 && stride[0] == 1 && stride[1] == 1 && !padding[0] && !padding[1];
  }

  int64_t pixels() const { return p * q; }
  int64_t unrolled() const { return c / groups * r * s; }
  int64_t image(int64_t channels, int64_t height, int64_t w) const { return channels * height * w; }

  // Calls `visit(column index, pixel of x or -1)` for every tap of every window of one image's group. Columns are in the
  // memory order of the filter.
  template <class Visit>
  void windows(int64_t group, Visit visit) const {
    int64_t per = c / groups;
    for (int64_t pixel = 0; pixel < pixels(); ++pixel)
      for (int64_t i = 0; i < r; ++i)
        for (int64_t j = 0; j < s; ++j) {
          int64_t row = pixel / q * stride[0] - padding[0] + i * dilation[0];
          int64_t col = pixel % q * stride[1] - padding[1] + j * dilation[1];
          bool inside = row >= 0 && row < h && col >= 0 && col < width;
          for (int64_t channel = 0; channel < per; ++channel) {
            int64_t from = last ? (row * width + col) * c + group * per + channel
                                : ((group * per + channel) * h + row) * width + col;
            int64_t to = last ? pixel * unrolled() + (i * s + j) * per + channel
                              : ((channel * r + i) * s + j) * pixels() + pixel;
            visit(to, inside ? from : -1);
          }
        }
  }

  int64_t n, c, h, width, k, p, q, r, s, groups;
  std::vector<int64_t> stride, padding, dilation;
  bool last, direct;
};

// The offset of one image's group, and the distance between its rows as a matrix.
struct Slice {
  Slice(const Convolution& shape, int64_t channels, int64_t pixels, int64_t image, int64_t group)
      : offset(image * channels * pixels + (shape.last ? group * (channels / shape.groups) : group * (channels / shape.groups) * pixels)),
        pitch(shape.last ? channels : pixels) {}
  int64_t offset, pitch;
};

class Unrolled {
 public:
  explicit Unrolled(const Convolution& shape) : shape_(shape) {
    if (!shape.direct) columns_.resize(shape.unrolled() * shape.pixels());
  }

  // The windows of one image's group as a matrix, and its pitch: taps x pixels, or pixels x taps in channels-last.
  std::pair<const float*, int64_t> gather(const float* x, int64_t image, int64_t group) {
    if (shape_.direct) {
      Slice slice(shape_, shape_.c, shape_.pixels(), image, group);
      return {x + slice.offset, slice.pitch};
    }
    const float* from = x + image * shape_.c * shape_.h * shape_.width;
    shape_.windows(group, [&](int64_t to, int64_t at) { columns_[to] = at < 0 ? 0.0f : from[at]; });
    return {columns_.data(), pitch()};
  }

  std::pair<float*, int64_t> room(float* dx, int64_t image, int64_t group) {
    if (shape_.direct) {
      Slice slice(shape_, shape_.c, shape_.pixels(), image, group);
      return {dx + slice.offset, slice.pitch};
    }
    return {columns_.data(), pitch()};
  }

  // Adds the gradient of the windows to the image.
  void scatter(float* dx, int64_t image, int64_t group) {
    if (shape_.direct) return;
    float* to = dx + image * shape_.c * shape_.h * shape_.width;
    shape_.windows(group, [&](int64_t from, int64_t at) {
      if (at >= 0) to[at] += columns_[from];
    });
  }

 private:
  int64_t pitch() const { return shape_.last ? shape_.unrolled() : shape_.pixels(); }

  const Convolution& shape_;
  std::vector<float> columns_;
};

inline Call convolution(const Op& op) {
  auto shape = std::make_shared<Convolution>(op, op["x"], op["w"], op["y"]);
  auto columns = std::make_shared<Unrolled>(*shape);
  const float *x = op["x"].as<float>(), *w = op["w"].as<float>();
  float* y = op["y"].as<float>();
  return [=] {
    const auto& v = *shape;
    int64_t per = v.k / v.groups, taps = v.unrolled();
    for (int64_t image = 0; image < v.n; ++image)
      for (int64_t group = 0; group < v.groups; ++group) {
        auto [matrix, pitch] = columns->gather(x, image, group);
        Slice out(v, v.k, v.pixels(), image, group);
        const float* filter = w + group * per * taps;
        if (v.last) gemm(false, true, v.pixels(), per, taps, matrix, pitch, filter, taps, 0, y + out.offset, out.pitch);
        else gemm(false, false, per, v.pixels(), taps, filter, taps, matrix, pitch, 0, y + out.offset, out.pitch);
      }
  };
}

inline Call convolution_weight_gradient(const Op& op) {
  auto shape = std::make_shared<Convolution>(op, op["x"], op["dw"], op["dy"]);
  auto columns = std::make_shared<Unrolled>(*shape);
  const float *x = op["x"].as<float>(), *dy = op["dy"].as<float>();
  float* dw = op["dw"].as<float>();
  return [=] {
    const auto& v = *shape;
    int64_t per = v.k / v.groups, taps = v.unrolled();
    for (int64_t image = 0; image < v.n; ++image)
      for (int64_t group = 0; group < v.groups; ++group) {
        auto [matrix, pitch] = columns->gather(x, image, group);
        Slice out(v, v.k, v.pixels(), image, group);
        float* filter = dw + group * per * taps;
        float beta = image ? 1.0f : 0.0f;
        gemm(v.last, !v.last, per, taps, v.pixels(), dy + out.offset, out.pitch, matrix, pitch, beta, filter, taps);
      }
  };
}

inline Call convolution_input_gradient(const Op& op) {
  auto shape = std::make_shared<Convolution>(op, op["dx"], op["w"], op["dy"]);
  auto columns = std::make_shared<Unrolled>(*shape);
  const float *w = op["w"].as<float>(), *dy = op["dy"].as<float>();
  float* dx = op["dx"].as<float>();
  int64_t bytes = op["dx"].bytes();
  return [=] {
    const auto& v = *shape;
    int64_t per = v.k / v.groups, taps = v.unrolled();
    std::memset(dx, 0, bytes);
    for (int64_t image = 0; image < v.n; ++image)
      for (int64_t group = 0; group < v.groups; ++group) {
        auto [matrix, pitch] = columns->room(dx, image, group);
        Slice out(v, v.k, v.pixels(), image, group);
        const float* filter = w + group * per * taps;
        if (v.last) gemm(false, false, v.pixels(), taps, per, dy + out.offset, out.pitch, filter, taps, 0, matrix, pitch);
        else gemm(true, false, taps, v.pixels(), per, filter, taps, dy + out.offset, out.pitch, 0, matrix, pitch);
        columns->scatter(dx, image, group);
      }
  };
}

}  // namespace tare::vendor

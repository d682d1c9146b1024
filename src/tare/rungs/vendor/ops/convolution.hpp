// Convolutions as matrix products over unrolled windows (im2col).
#pragma once

#include <array>
#include <cstring>
#include <utility>

#include "blas.hpp"
#include "scratch.hpp"

namespace tare::ops {

struct Convolution {
  // Images of n x c x h x w, the result of n x k x p x q, and the window of r x s.
  std::array<int64_t, 4> image, result;
  std::array<int64_t, 2> window, stride, padding, dilation;
  int64_t groups = 1;
  bool channels_last = false;

  int64_t images() const { return image[0]; }
  // Output channels of a group.
  int64_t filters() const { return result[1] / groups; }
  int64_t pixels() const { return result[2] * result[3]; }
  int64_t unrolled() const { return image[1] / groups * window[0] * window[1]; }
  int64_t image_size() const { return image[1] * image[2] * image[3]; }
  // A window of one pixel that moves by one: the image is its own unrolled matrix.
  bool direct() const {
    return window[0] == 1 && window[1] == 1 && stride[0] == 1 && stride[1] == 1 && !padding[0] && !padding[1];
  }

  // Calls `visit(column index, pixel of x or -1)` for every tap of every window of one image's group. Columns are in the
  // memory order of the filter.
  template <class Visit>
  void windows(int64_t group, Visit visit) const {
    auto [n, c, h, width] = image;
    auto [r, s] = window;
    int64_t per = c / groups, q = result[3];
    for (int64_t pixel = 0; pixel < pixels(); ++pixel)
      for (int64_t i = 0; i < r; ++i)
        for (int64_t j = 0; j < s; ++j) {
          int64_t row = pixel / q * stride[0] - padding[0] + i * dilation[0];
          int64_t col = pixel % q * stride[1] - padding[1] + j * dilation[1];
          bool inside = row >= 0 && row < h && col >= 0 && col < width;
          for (int64_t channel = 0; channel < per; ++channel) {
            int64_t from = channels_last ? (row * width + col) * c + group * per + channel
                                         : ((group * per + channel) * h + row) * width + col;
            int64_t to = channels_last ? pixel * unrolled() + (i * s + j) * per + channel
                                       : ((channel * r + i) * s + j) * pixels() + pixel;
            visit(to, inside ? from : -1);
          }
        }
  }
};

// The offset of one image's group, and the distance between its rows as a matrix.
struct Slice {
  Slice(const Convolution& shape, int64_t channels, int64_t pixels, int64_t image, int64_t group)
      : offset(image * channels * pixels + group * (channels / shape.groups) * (shape.channels_last ? 1 : pixels)),
        pitch(shape.channels_last ? channels : pixels) {}
  int64_t offset, pitch;
};

class Unrolled {
 public:
  Unrolled(Scratch& scratch, const Convolution& shape)
      : shape_(shape), columns_(shape.direct() ? nullptr : scratch.take<float>(shape.unrolled() * shape.pixels())) {}

  // The windows of one image's group as a matrix, and its pitch: taps x pixels, or pixels x taps in channels-last.
  std::pair<const float*, int64_t> gather(const float* x, int64_t image, int64_t group) const {
    if (!columns_) return own(x, image, group);
    const float* from = x + image * shape_.image_size();
    float* columns = columns_;
    shape_.windows(group, [=](int64_t to, int64_t at) { columns[to] = at < 0 ? 0.0f : from[at]; });
    return {columns_, pitch()};
  }

  std::pair<float*, int64_t> room(float* dx, int64_t image, int64_t group) const {
    return columns_ ? std::make_pair(columns_, pitch()) : own(dx, image, group);
  }

  // Adds the gradient of the windows to the image.
  void scatter(float* dx, int64_t image, int64_t group) const {
    if (!columns_) return;
    float *to = dx + image * shape_.image_size(), *columns = columns_;
    shape_.windows(group, [=](int64_t from, int64_t at) {
      if (at >= 0) to[at] += columns[from];
    });
  }

 private:
  int64_t pitch() const { return shape_.channels_last ? shape_.unrolled() : shape_.pixels(); }

  template <class T>
  std::pair<T*, int64_t> own(T* x, int64_t image, int64_t group) const {
    Slice slice(shape_, shape_.image[1], shape_.pixels(), image, group);
    return {x + slice.offset, slice.pitch};
  }

  const Convolution& shape_;
  float* columns_;
};

inline void convolution(Scratch& scratch, const float* x, const float* w, float* y, const Convolution& shape) {
  Unrolled columns(scratch, shape);
  int64_t per = shape.filters(), taps = shape.unrolled(), pixels = shape.pixels();
  for (int64_t image = 0; image < shape.images(); ++image)
    for (int64_t group = 0; group < shape.groups; ++group) {
      auto [matrix, pitch] = columns.gather(x, image, group);
      Slice out(shape, shape.result[1], pixels, image, group);
      const float* filter = w + group * per * taps;
      if (shape.channels_last) gemm(false, true, pixels, per, taps, matrix, pitch, filter, taps, 0, y + out.offset, out.pitch);
      else gemm(false, false, per, pixels, taps, filter, taps, matrix, pitch, 0, y + out.offset, out.pitch);
    }
}

inline void convolution_weight_gradient(Scratch& scratch, const float* x, const float* dy, float* dw, const Convolution& shape) {
  Unrolled columns(scratch, shape);
  int64_t per = shape.filters(), taps = shape.unrolled(), pixels = shape.pixels();
  bool last = shape.channels_last;
  for (int64_t image = 0; image < shape.images(); ++image)
    for (int64_t group = 0; group < shape.groups; ++group) {
      auto [matrix, pitch] = columns.gather(x, image, group);
      Slice out(shape, shape.result[1], pixels, image, group);
      float* filter = dw + group * per * taps;
      float beta = image ? 1.0f : 0.0f;
      gemm(last, !last, per, taps, pixels, dy + out.offset, out.pitch, matrix, pitch, beta, filter, taps);
    }
}

inline void convolution_input_gradient(Scratch& scratch, const float* w, const float* dy, float* dx, const Convolution& shape) {
  Unrolled columns(scratch, shape);
  int64_t per = shape.filters(), taps = shape.unrolled(), pixels = shape.pixels();
  std::memset(dx, 0, shape.images() * shape.image_size() * sizeof(float));
  for (int64_t image = 0; image < shape.images(); ++image)
    for (int64_t group = 0; group < shape.groups; ++group) {
      auto [matrix, pitch] = columns.room(dx, image, group);
      Slice out(shape, shape.result[1], pixels, image, group);
      const float* filter = w + group * per * taps;
      if (shape.channels_last) gemm(false, false, pixels, taps, per, dy + out.offset, out.pitch, filter, taps, 0, matrix, pitch);
      else gemm(true, false, taps, pixels, per, filter, taps, dy + out.offset, out.pitch, 0, matrix, pitch);
      columns.scatter(dx, image, group);
    }
}

}  // namespace tare::ops

// What is done element by element or channel by channel: sums, activations, batch norm, biases, losses, the update.
#pragma once

#include <algorithm>
#include <cmath>

#include "../program.hpp"

namespace tare::vendor {

// Any tensor as outer x channels x inner: images with their channels in the middle or last, rows of features.
struct Channels {
  explicit Channels(const Value& value) {
    if (value.shape.size() == 4) {
      channels = value.shape[1];
      inner = value.channels_last() ? 1 : value.shape[2] * value.shape[3];
    } else {
      channels = value.shape.back();
    }
    outer = value.size / channels / inner;
  }

  template <class Visit>
  void each(Visit visit) const {
    for (int64_t i = 0, at = 0; i < outer; ++i)
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t j = 0; j < inner; ++j, ++at) visit(at, c);
  }

  int64_t outer = 1, channels = 1, inner = 1;
};

inline float activate(float value, int kind) { return kind == 0 ? value : kind == 1 ? std::max(value, 0.0f) : std::clamp(value, 0.0f, 6.0f); }
inline bool passes(float result, int kind) { return kind == 0 || (result > 0 && (kind == 1 || result < 6)); }
inline int activation_kind(const Op& op) { return op.activation().empty() ? 0 : op.activation() == "relu" ? 1 : 2; }
inline const float* floats(const Op& op, const char* role) {
  Value* value = op.find(role);
  return value ? value->as<float>() : nullptr;
}

// y = activation(x + b + z), in place where x is y.
inline Call epilogue(const Op& op, const float* x, const char* result = "y") {
  float* y = op[result].as<float>();
  const float *b = floats(op, "b"), *z = floats(op, "z");
  int kind = activation_kind(op);
  Channels shape(op[result]);
  return [=] {
    shape.each([=](int64_t i, int64_t c) { y[i] = activate(x[i] + (b ? b[c] : 0) + (z ? z[i] : 0), kind); });
  };
}

inline Call activation_backward(const Op& op) {
  const float *y = floats(op, "y"), *dy = floats(op, "dy");
  float* dx = op["dx"].as<float>();
  int64_t size = op["dx"].size;
  int kind = activation_kind(op);
  return [=] {
    for (int64_t i = 0; i < size; ++i) dx[i] = passes(y[i], kind) ? dy[i] : 0.0f;
  };
}

inline Call affine(const Op& op) {
  const float *x = floats(op, "x"), *scale = floats(op, "scale"), *shift = floats(op, "shift"), *z = floats(op, "z");
  float* y = op["y"].as<float>();
  int kind = activation_kind(op);
  Channels shape(op["y"]);
  return [=] {
    shape.each([=](int64_t i, int64_t c) { y[i] = activate(x[i] * scale[c] + shift[c] + (z ? z[i] : 0), kind); });
  };
}

inline Call batch_norm(const Op& op) {
  const float *x = floats(op, "x"), *scale = floats(op, "scale"), *shift = floats(op, "shift"), *z = floats(op, "z");
  float *y = op["y"].as<float>(), *mean = op["mean"].as<float>(), *var = op["var"].as<float>();
  float *saved_mean = op["saved_mean"].as<float>(), *saved_invstd = op["saved_invstd"].as<float>();
  double eps = op.number("eps"), momentum = op.number("momentum");
  int kind = activation_kind(op);
  Channels shape(op["x"]);
  auto sums = std::make_shared<std::vector<double>>(2 * shape.channels);
  return [=] {
    double count = static_cast<double>(shape.outer * shape.inner);
    double *sum = sums->data(), *square = sum + shape.channels;
    std::fill(sums->begin(), sums->end(), 0.0);
    shape.each([=](int64_t i, int64_t c) { sum[c] += x[i]; });
    for (int64_t c = 0; c < shape.channels; ++c) sum[c] /= count;
    shape.each([=](int64_t i, int64_t c) { square[c] += (x[i] - sum[c]) * (x[i] - sum[c]); });
    for (int64_t c = 0; c < shape.channels; ++c) {
      saved_mean[c] = static_cast<float>(sum[c]);
      saved_invstd[c] = static_cast<float>(1 / std::sqrt(square[c] / count + eps));
      mean[c] = static_cast<float>((1 - momentum) * mean[c] + momentum * sum[c]);
      // The running variance is the unbiased one, as in torch.
      var[c] = static_cast<float>((1 - momentum) * var[c] + momentum * square[c] / std::max(count - 1, 1.0));
    }
    shape.each([=](int64_t i, int64_t c) {
      float value = (x[i] - saved_mean[c]) * saved_invstd[c] * scale[c] + shift[c];
      y[i] = activate(value + (z ? z[i] : 0), kind);
    });
  };
}

inline Call batch_norm_backward(const Op& op) {
  const float *x = floats(op, "x"), *dy = floats(op, "dy"), *dy2 = floats(op, "dy2"), *y = floats(op, "y");
  const float *scale = floats(op, "scale"), *mean = floats(op, "saved_mean"), *invstd = floats(op, "saved_invstd");
  float *dx = op["dx"].as<float>(), *dscale = op["dscale"].as<float>(), *dshift = op["dshift"].as<float>();
  float* dz = op.find("dz") ? op["dz"].as<float>() : nullptr;
  int kind = activation_kind(op);
  Channels shape(op["x"]);
  auto sums = std::make_shared<std::vector<double>>(2 * shape.channels);
  return [=] {
    double count = static_cast<double>(shape.outer * shape.inner);
    double *total = sums->data(), *along = total + shape.channels;
    auto arriving = [=](int64_t i) { return y && !passes(y[i], kind) ? 0.0f : dy[i] + (dy2 ? dy2[i] : 0.0f); };
    std::fill(sums->begin(), sums->end(), 0.0);
    shape.each([=](int64_t i, int64_t c) {
      float g = arriving(i);
      if (dz) dz[i] = g;
      total[c] += g;
      along[c] += g * (x[i] - mean[c]) * invstd[c];
    });
    for (int64_t c = 0; c < shape.channels; ++c) {
      dshift[c] = static_cast<float>(total[c]);
      dscale[c] = static_cast<float>(along[c]);
    }
    shape.each([=](int64_t i, int64_t c) {
      double normal = (x[i] - mean[c]) * invstd[c];
      dx[i] = static_cast<float>(scale[c] * invstd[c] * (arriving(i) - total[c] / count - normal * along[c] / count));
    });
  };
}

inline Call bias_gradient(const Op& op) {
  const float* dy = floats(op, "dy");
  float* db = op["db"].as<float>();
  Channels shape(op["dy"]);
  auto sums = std::make_shared<std::vector<double>>(shape.channels);
  return [=] {
    std::fill(sums->begin(), sums->end(), 0.0);
    double* sum = sums->data();
    shape.each([=](int64_t i, int64_t c) { sum[c] += dy[i]; });
    for (int64_t c = 0; c < shape.channels; ++c) db[c] = static_cast<float>(sum[c]);
  };
}

// The same numbers in another order in memory.
inline Call reorder(const Op& op) {
  const Value &from = op["x"], &to = op["y"];
  return [from, to] {
    const auto& n = to.shape;
    for (int64_t a = 0; a < n[0]; ++a)
      for (int64_t b = 0; b < n[1]; ++b)
        for (int64_t c = 0; c < n[2]; ++c)
          for (int64_t d = 0; d < n[3]; ++d)
            to.as<float>()[a * to.strides[0] + b * to.strides[1] + c * to.strides[2] + d * to.strides[3]] =
                from.as<float>()[a * from.strides[0] + b * from.strides[1] + c * from.strides[2] + d * from.strides[3]];
  };
}

inline double log_sum(const float* row, int64_t size) {
  float most = *std::max_element(row, row + size);
  double sum = 0;
  for (int64_t i = 0; i < size; ++i) sum += std::exp(static_cast<double>(row[i] - most));
  return most + std::log(sum);
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

// v = momentum * v + g; w = w - rate * v.
inline Call sgd(const Op& op) {
  const float* gradient = floats(op, "gradient");
  float *master = op["master"].as<float>(), *velocity = op["momentum"].as<float>();
  float rate = static_cast<float>(op.number("learning_rate")), keep = static_cast<float>(op.number("momentum"));
  int64_t size = op["master"].size;
  return [=] {
    for (int64_t i = 0; i < size; ++i) {
      velocity[i] = keep * velocity[i] + gradient[i];
      master[i] -= rate * velocity[i];
    }
  };
}

}  // namespace tare::vendor

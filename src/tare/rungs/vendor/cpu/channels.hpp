// Iteration over a tensor by channel.
#pragma once

#include "../program.hpp"

namespace tare::vendor {

// Any tensor as outer x channels x inner: images in either memory layout, and rows of features.
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

  // The same with the index of the channel among those of all images.
  template <class Visit>
  void each_of(int64_t images, Visit visit) const {
    for (int64_t i = 0, at = 0; i < outer; ++i)
      for (int64_t c = 0, from = i / (outer / images) * channels; c < channels; ++c)
        for (int64_t j = 0; j < inner; ++j, ++at) visit(at, from + c);
  }

  int64_t outer = 1, channels = 1, inner = 1;
};

inline const float* floats(const Op& op, const char* role) {
  Value* value = op.find(role);
  return value ? value->as<float>() : nullptr;
}

}  // namespace tare::vendor

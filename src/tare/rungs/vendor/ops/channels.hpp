// Iteration over a tensor by channel.
#pragma once

#include <cstdint>

namespace tare::ops {

// Any tensor as outer x channels x inner: images in either memory layout, and rows of features.
struct Channels {
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

}  // namespace tare::ops

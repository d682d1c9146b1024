// What the ops of a plan say of their values, as the functions in ops/ want it.
#pragma once

#include <array>

#include "../ops/channels.hpp"
#include "../ops/scratch.hpp"
#include "../program.hpp"

namespace tare::vendor {

inline ops::Channels channels_of(const Value& value) {
  ops::Channels result;
  if (value.shape.size() == 4) {
    result.channels = value.shape[1];
    result.inner = value.channels_last() ? 1 : value.shape[2] * value.shape[3];
  } else {
    result.channels = value.shape.back();
  }
  result.outer = value.size / result.channels / result.inner;
  return result;
}

inline const float* floats(const Op& op, const char* role) {
  Value* value = op.find(role);
  return value ? value->as<float>() : nullptr;
}

inline std::array<int64_t, 2> pair_of(const Op& op, const char* name) {
  auto numbers = op.integers(name);
  return {numbers.at(0), numbers.at(1)};
}

// Of all calls of this program, which run one after the other.
inline ops::Scratch& scratch() {
  static ops::Scratch shared;
  return shared;
}

}  // namespace tare::vendor

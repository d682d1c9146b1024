// The 16-bit floats of generated kernels on a CPU: stored as bits, computed in float.
#pragma once

#include <cstdint>
#include <cstring>

struct bfloat16_ {
  uint16_t bits;
};

// GCC 12 has no _Float16 in C++ on ARM, and no __fp16 elsewhere.
#if defined(__aarch64__)
using half_ = __fp16;
#else
using half_ = _Float16;
#endif

namespace {

inline float float_(bfloat16_ x) {
  uint32_t wide = static_cast<uint32_t>(x.bits) << 16;
  float result;
  std::memcpy(&result, &wide, 4);
  return result;
}
inline float float_(half_ x) { return static_cast<float>(x); }

template <class T>
inline T rounded_(float x) {
  return static_cast<T>(x);
}
// To the nearest, ties to even. A NaN stays one, whatever its bits.
template <>
inline bfloat16_ rounded_<bfloat16_>(float x) {
  uint32_t wide;
  std::memcpy(&wide, &x, 4);
  uint32_t rounded = (wide + 0x7fffu + ((wide >> 16) & 1)) >> 16;
  return {static_cast<uint16_t>(x == x ? rounded : 0x7fc0u)};
}

}  // namespace

#pragma once

// GCC 12 has no _Float16 in C++ on ARM, and no __fp16 elsewhere.
#if defined(__aarch64__)
using HostHalf = __fp16;
#else
using HostHalf = _Float16;
#endif

struct __half {
  HostHalf value;
};
inline float __half2float(__half value) { return static_cast<float>(value.value); }
inline __half __float2half(float value) { return {static_cast<HostHalf>(value)}; }

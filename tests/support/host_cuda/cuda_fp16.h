#pragma once

struct __half {
  _Float16 value;
};
inline float __half2float(__half value) { return static_cast<float>(value.value); }
inline __half __float2half(float value) { return {static_cast<_Float16>(value)}; }

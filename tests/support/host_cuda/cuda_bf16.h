#pragma once

#include <cstdint>
#include <cstring>

struct __nv_bfloat16 {
  uint16_t bits;
};
inline float __bfloat162float(__nv_bfloat16 value) {
  uint32_t wide = static_cast<uint32_t>(value.bits) << 16;
  float made;
  std::memcpy(&made, &wide, 4);
  return made;
}
inline __nv_bfloat16 __float2bfloat16(float value) {
  uint32_t wide;
  std::memcpy(&wide, &value, 4);
  return {static_cast<uint16_t>((wide + 0x7fffu + ((wide >> 16) & 1)) >> 16)};
}

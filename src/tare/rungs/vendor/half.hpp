// 16-bit floats converted on a host without a type for them.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>

namespace tare::vendor {

inline float half_to_float(uint16_t bits, bool brain) {
  uint32_t wide;
  if (brain) {
    wide = static_cast<uint32_t>(bits) << 16;
  } else {
    uint32_t sign = (bits & 0x8000u) << 16, exponent = (bits >> 10) & 31, fraction = bits & 1023;
    if (exponent == 0) {
      float small = static_cast<float>(fraction) / 16777216.0f;
      return sign ? -small : small;
    }
    wide = sign | ((exponent == 31 ? 255 : exponent + 112) << 23) | (fraction << 13);
  }
  float result;
  std::memcpy(&result, &wide, 4);
  return result;
}

// Rounds to the nearest, ties to even. Values too large for a half become infinite.
inline uint16_t float_to_half(float value, bool brain) {
  if (std::isnan(value)) return brain ? 0x7fc0u : 0x7e00u;
  uint32_t wide;
  std::memcpy(&wide, &value, 4);
  if (brain) return static_cast<uint16_t>((wide + 0x7fffu + ((wide >> 16) & 1)) >> 16);
  uint16_t sign = static_cast<uint16_t>((wide >> 16) & 0x8000u);
  float size = std::fabs(value);
  if (size >= 65520.0f) return static_cast<uint16_t>(sign | 0x7c00u);
  if (size < 6.103515625e-5f) return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(size * 16777216.0f)));
  std::memcpy(&wide, &size, 4);
  wide += 0xfffu + ((wide >> 13) & 1);
  return static_cast<uint16_t>(sign | ((wide - 0x38000000u) >> 13));
}

// A number as a tensor of this type stores it.
inline float round_to(const std::string& dtype, float value) {
  if (dtype != "bf16" && dtype != "f16") return value;
  return half_to_float(float_to_half(value, dtype == "bf16"), dtype == "bf16");
}

}  // namespace tare::vendor

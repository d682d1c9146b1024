// What generated kernels call, on a CPU and on a GPU. Without branches where it can be, so that a compiler vectorises
// loops of it.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define TARE_FUNCTION __device__ inline
#else
#define TARE_FUNCTION inline
#endif

namespace {

// The type in which two operands meet: double where one is, float where one is, otherwise integers.
template <class A, class B>
using Common = decltype(A() + B());

// A NaN on either side is the result, as in torch.
template <class A, class B>
TARE_FUNCTION Common<A, B> max_(A a, B b) { return a > b || a != a ? Common<A, B>(a) : Common<A, B>(b); }
template <class A, class B>
TARE_FUNCTION Common<A, B> min_(A a, B b) { return a < b || a != a ? Common<A, B>(a) : Common<A, B>(b); }

template <class T>
TARE_FUNCTION T abs_(T x) { return x < 0 ? -x : x == 0 ? T(0) : x; }
template <class T>
TARE_FUNCTION T sign_(T x) { return x > 0 ? T(1) : x < 0 ? T(-1) : x; }
TARE_FUNCTION bool not_(bool x) { return !x; }
TARE_FUNCTION int64_t not_(int64_t x) { return ~x; }
template <class T>
TARE_FUNCTION bool isinf_(T x) { return x == T(INFINITY) || x == -T(INFINITY); }
TARE_FUNCTION float real_(float x) { return x; }
TARE_FUNCTION double real_(double x) { return x; }
TARE_FUNCTION float real_(int64_t x) { return static_cast<float>(x); }
TARE_FUNCTION float real_(bool x) { return x; }

// Rounded towards minus infinity, with the sign of the divisor.
template <class A, class B>
TARE_FUNCTION Common<A, B> remainder_(A a, B b) {
  Common<A, B> r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
TARE_FUNCTION int64_t remainder_(int64_t a, int64_t b) {
  int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
TARE_FUNCTION int64_t floor_divide_(int64_t a, int64_t b) { return (a - remainder_(a, b)) / b; }

TARE_FUNCTION float power_of_two(int32_t exponent) {
  int32_t bits = (exponent + 127) << 23;
  float result;
  std::memcpy(&result, &bits, 4);
  return result;
}

// exp(x) = 2^n exp(r), with |r| at most half of ln 2, and the series of exp(r). Within two units of the last place.
TARE_FUNCTION float exp_(float x) {
#ifdef __CUDA_ARCH__
  return expf(x);
#else
  float y = x < -104.0f ? -104.0f : x > 89.0f ? 89.0f : x;
  float n = std::nearbyint(y * 1.44269504f);
  // ln 2 in two parts, so that n times the first is exact.
  float r = (y - n * 0.693145752f) - n * 1.42860677e-6f;
  float series = 1.0f + r * (1.0f + r * (0.5f + r * (1.0f / 6 + r * (1.0f / 24 + r * (1.0f / 120 + r * (1.0f / 720 + r / 5040))))));
  int32_t whole = static_cast<int32_t>(n == n ? n : 0.0f), half = whole >> 1;
  return series * power_of_two(half) * power_of_two(whole - half);
#endif
}

TARE_FUNCTION double exp_(double x) { return std::exp(x); }

template <class T>
TARE_FUNCTION T sigmoid_(T x) { return 1 / (1 + exp_(-x)); }
template <class T>
TARE_FUNCTION T tanh_(T x) { return std::tanh(x); }

// An index may count from the end. One that is out of range reads the nearest element instead of foreign memory.
TARE_FUNCTION int64_t place_(int64_t at, int64_t size) {
  at = at < 0 ? at + size : at;
  return at < 0 ? 0 : at < size ? at : size - 1;
}

}  // namespace

// Our own kernels are most of what there is to compile: each data type has a file of its own, compiled beside the others.
#pragma once

#include "own_calls.cuh"

// `extern` where they are only called, nothing where they are compiled.
#define TARE_KERNELS(keyword, T)                                                   \
  namespace tare::vendor {                                                         \
  keyword template std::vector<Call> own_calls<T>(Device&, Partials&, const Op&);  \
  keyword template Call epilogue<T>(Device&, const Op&, const T*, bool);           \
  }

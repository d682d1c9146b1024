// Generated kernels over the threads of a team.
#pragma once

#include "team.hpp"

namespace tare::ops {

// Elements for which a second thread pays.
constexpr int64_t elements_per_thread = 1 << 15;

// It computes the rows from `begin` to before `end`; its buffers are its inputs and then its outputs.
using Kernel = void (*)(char* const* buffers, int64_t begin, int64_t end);

inline void run_kernel(Team& team, Kernel kernel, char* const* buffers, int64_t rows, int64_t work) {
  team.share(rows, work / elements_per_thread, [=](int64_t begin, int64_t end) { kernel(buffers, begin, end); });
}

}  // namespace tare::ops

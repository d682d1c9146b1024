// Calls of the generated kernels.
#pragma once

#include <memory>

#include "../memory.hpp"
#include "../ops/kernels.hpp"
#include "kernels.hpp"

inline std::unique_ptr<tare::ops::Team> team;

// Shares the rows of a kernel out to the threads, if it has elements enough.
template <class... Buffers>
void run(tare::ops::Kernel kernel, int64_t rows, int64_t elements, const Buffers&... buffers) {
  char* const places[] = {bytes(buffers)...};
  tare::ops::run_kernel(*team, kernel, places, rows, elements);
}

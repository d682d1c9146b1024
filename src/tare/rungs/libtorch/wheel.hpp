// Works around a fault in torch's aarch64 wheels (seen in 2.10.0): libtorch_cpu.so has a copy of std::vector<at::Tensor>'s
// growth compiled for SVE, so a two-layer nn::LSTM ends with SIGILL on a CPU without SVE. The dynamic linker takes the
// first definition, which is this one in the executable.
#pragma once

#include <torch/torch.h>

#if defined(__aarch64__) && defined(__GLIBCXX__)
template void std::vector<at::Tensor>::_M_realloc_insert<at::Tensor&>(iterator, at::Tensor&);
#endif

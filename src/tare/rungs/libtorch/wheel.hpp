// A mistake in torch's aarch64 wheels (seen in 2.10.0): libtorch_cpu.so carries std::vector<at::Tensor>'s growth
// compiled for SVE, and every caller in it uses that copy, so that a two-layer nn::LSTM ends by SIGILL on a CPU without
// SVE. The dynamic linker takes the first definition it meets, and the executable's comes first: this one.
#pragma once

#include <torch/torch.h>

#if defined(__aarch64__) && defined(__GLIBCXX__)
template void std::vector<at::Tensor>::_M_realloc_insert<at::Tensor&>(iterator, at::Tensor&);
#endif

#include "kernels.cuh"

TARE_KERNELS(, __half)

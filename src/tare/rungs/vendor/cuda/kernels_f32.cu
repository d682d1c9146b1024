#include "kernels.cuh"

TARE_KERNELS(, float)

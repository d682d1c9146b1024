#include "kernels.cuh"

TARE_KERNELS(, __nv_bfloat16)

// Compiled for x86-64-v3 (AVX2, FMA, F16C); see CMakeLists.txt.
#define KERNELS kKernelsV3
#include "base/num/kernels.inc"

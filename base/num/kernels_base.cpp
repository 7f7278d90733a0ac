#define KERNELS kKernelsBase
#include "base/num/kernels.inc"

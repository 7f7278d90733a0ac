// Preloaded in front of the shim: there is no memory for DMA rings.
#include <ndl/ndl.h>

#include <cerrno>
#include <cstdarg>

#include "tests/failures/driver_calls.h"

namespace {

namespace uapi = driver::uapi;

// What memory is for, in requests that say it.
uint32_t category(uint32_t request, const void* argument) {
  switch (request) {
    case uapi::kMemAllocV2Mt:
      return static_cast<const uapi::mem_alloc_v2_mem_type*>(argument)->mem_type;
    case uapi::kMemAllocV2Mt64:
      return static_cast<const uapi::mem_alloc_v2_mem_type64*>(argument)->mem_type;
    case uapi::kMemAllocV2Mt64Pa:
      return static_cast<const uapi::mem_alloc_v2_mem_type64_pa*>(argument)->mem_type;
    default:
      return 0;
  }
}

}  // namespace

extern "C" int ioctl(int fd, unsigned long request, ...) noexcept {
  va_list arguments;
  va_start(arguments, request);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  if (category(static_cast<uint32_t>(request), argument) == NEURON_MEMALLOC_TYPE_DMA_RINGS_DEVICE) {
    errno = ENOMEM;
    return -1;
  }
  return failures::next_ioctl(fd, request, argument);
}

// For libraries that are preloaded in front of the shim: what a program asks of the driver goes
// through their ioctl(), whichever library asks.
#pragma once

#include <dlfcn.h>

#include "driver/uapi/requests.h"
#include "driver/uapi/structs.h"

namespace failures {

inline int next_ioctl(int fd, unsigned long request, void* argument) {
  using Call = int (*)(int, unsigned long, ...);
  static const auto next = reinterpret_cast<Call>(::dlsym(RTLD_NEXT, "ioctl"));
  return next(fd, request, argument);
}

}  // namespace failures

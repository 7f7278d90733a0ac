// The next definition of an interposed function: libc's, or a sanitizer's interceptor in between.
#pragma once

#include <dlfcn.h>
#include <errno.h>

#include <atomic>

namespace driver::shim {

inline int fail(int code) {
  errno = code;
  return -1;
}

inline void* resolve(std::atomic<void*>& kept, const char* name) {
  void* function = kept.load(std::memory_order_relaxed);
  if (function == nullptr) {
    function = dlsym(RTLD_NEXT, name);
    kept.store(function, std::memory_order_relaxed);
  }
  return function;
}

// Some names have an older default version, which dlsym would give.
inline void* resolve_version(std::atomic<void*>& kept, const char* name, const char* version) {
  void* function = kept.load(std::memory_order_relaxed);
  if (function == nullptr) {
    function = dlvsym(RTLD_NEXT, name, version);
    if (function == nullptr) function = dlsym(RTLD_NEXT, name);
    kept.store(function, std::memory_order_relaxed);
  }
  return function;
}

}  // namespace driver::shim

#define SHIM_REAL(name) SHIM_REAL_AS(decltype(&::name), name)
#define SHIM_REAL_AS(type, name)                                         \
  ([] {                                                                  \
    static std::atomic<void*> kept{nullptr};                             \
    return reinterpret_cast<type>(::driver::shim::resolve(kept, #name)); \
  }())
#define SHIM_REAL_VERSION(name, version)                        \
  ([] {                                                         \
    static std::atomic<void*> kept{nullptr};                    \
    return reinterpret_cast<decltype(&::name)>(                 \
        ::driver::shim::resolve_version(kept, #name, version)); \
  }())

// Marks a function that takes the place of libc's. The list of them is in docs/abi.md.
#define SHIM_EXPORT extern "C" __attribute__((visibility("default")))

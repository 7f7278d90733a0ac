// The next definition of an interposed function: libc's, or a sanitizer's interceptor in between.
#pragma once

#include <dlfcn.h>

#include <atomic>

namespace driver::shim {

inline void* resolve(std::atomic<void*>& slot, const char* name) {
  void* function = slot.load(std::memory_order_relaxed);
  if (function == nullptr) {
    function = dlsym(RTLD_NEXT, name);
    slot.store(function, std::memory_order_relaxed);
  }
  return function;
}

// Some names have an older default version, which dlsym would give.
inline void* resolve_version(std::atomic<void*>& slot, const char* name, const char* version) {
  void* function = slot.load(std::memory_order_relaxed);
  if (function == nullptr) {
    function = dlvsym(RTLD_NEXT, name, version);
    if (function == nullptr) function = dlsym(RTLD_NEXT, name);
    slot.store(function, std::memory_order_relaxed);
  }
  return function;
}

}  // namespace driver::shim

#define SHIM_REAL(name) SHIM_REAL_AS(decltype(&::name), name)
#define SHIM_REAL_AS(type, name)                                         \
  ([] {                                                                  \
    static std::atomic<void*> slot{nullptr};                             \
    return reinterpret_cast<type>(::driver::shim::resolve(slot, #name)); \
  }())
#define SHIM_REAL_VERSION(name, version)                        \
  ([] {                                                         \
    static std::atomic<void*> slot{nullptr};                    \
    return reinterpret_cast<decltype(&::name)>(                 \
        ::driver::shim::resolve_version(slot, #name, version)); \
  }())

// Marks a function that takes the place of libc's. The list of them is in docs/abi.md.
#define SHIM_EXPORT extern "C" __attribute__((visibility("default")))

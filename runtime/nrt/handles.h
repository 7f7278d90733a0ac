// Which opaque handles are alive, so that a stale or foreign pointer is an error and not a crash.
#pragma once

#include <mutex>
#include <shared_mutex>
#include <unordered_set>

namespace nrt {

class HandleSet {
 public:
  void add(const void* handle) {
    const std::unique_lock<std::shared_mutex> lock(mutex_);
    alive_.insert(handle);
  }
  // True if it was there.
  bool remove(const void* handle) {
    const std::unique_lock<std::shared_mutex> lock(mutex_);
    return alive_.erase(handle) != 0;
  }
  bool contains(const void* handle) const {
    const std::shared_lock<std::shared_mutex> lock(mutex_);
    return alive_.count(handle) != 0;
  }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_set<const void*> alive_;
};

}  // namespace nrt

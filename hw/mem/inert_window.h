// A window that is known but not modelled: reads 0, ignores writes of any size, and is counted by
// name. Source: spec/hw-registers.md 2.4, 6.3 (a driver may copy "programs" into such windows).
#pragma once

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "hw/mem/bus.h"
#include "hw/stats.h"

namespace hw {

// Several behind one socket; window k answers at k * kStride.
class InertWindows final : public BusTarget {
 public:
  static constexpr uint64_t kStride = 1ull << 32;

  explicit InertWindows(AccessLog& log) : log_(log) {}
  // Base of the new window behind the socket.
  uint64_t add(std::string name) {
    names_.push_back(std::move(name));
    return (names_.size() - 1) * kStride;
  }
  bool access(uint64_t offset, uint8_t* data, size_t size, bool write, bool debug) override {
    if (!write) std::memset(data, 0, size);
    if (!debug) {
      log_.count(names_.at(offset / kStride), AccessLog::Kind::kUnsupported, "window", write);
    }
    return true;
  }

 private:
  AccessLog& log_;
  std::vector<std::string> names_;
};

}  // namespace hw

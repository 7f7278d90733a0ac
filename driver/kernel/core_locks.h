// The cooperative claims on NeuronCores: reader/writer locks per core, range marks over the whole
// node, core-init states. Source: spec/driver-ioctl.md 3.10, 3.11. Waits are for other clients, so
// they go through Context::client_wait.
#pragma once

#include <array>
#include <cstdint>

#include "driver/kernel/context.h"
#include "driver/uapi/limits.h"
#include "driver/uapi/structs.h"

namespace driver {

class CrwlLocks {
 public:
  using Uuid = std::array<uint8_t, 32>;
  struct State {
    Uuid uuid{};
    int32_t owner = 0;
    bool writer = false;
    uint32_t readers = 0;
  };

  explicit CrwlLocks(const Context& context) : context_(context) {}

  // 0 or -errno; `nc` < 8 is checked by the caller.
  int reader_enter(uint32_t nc, const Uuid& uuid, int32_t caller);
  int reader_exit(uint32_t nc, const Uuid& uuid, int32_t caller);
  int writer_enter(uint32_t nc, const Uuid& uuid, int32_t caller);
  int writer_downgrade(uint32_t nc, const Uuid& uuid, int32_t caller);
  void release_process(int32_t tgid);
  const State& state(uint32_t nc) const { return states_[nc]; }

 private:
  bool matches(const State& state, const Uuid& uuid, int32_t caller) const {
    return state.uuid == uuid && state.owner == caller;
  }
  bool wait_free(State& state, bool also_readers, uint64_t limit_us);

  const Context& context_;
  std::array<State, uapi::kMaxNcPerDevice> states_;
};

// Owners of all cores of a node, index = device * cores per device + core.
class RangeMarks {
 public:
  // The request's indices and bitmap are relative to `offset`. Fills max_nc_available and bitmap,
  // also with -EBUSY and -EINVAL.
  int mark(uapi::crwl_nc_map_ext& request, uint32_t offset, int32_t caller);
  void unmark(const uint64_t bitmap[8], uint32_t offset, int32_t caller);
  void release_process(int32_t tgid);
  int32_t owner(uint32_t index) const { return owners_[index]; }
  bool any() const;

 private:
  std::array<int32_t, uapi::kMaxNcRangeMarks> owners_{};
};

class CoreInitStates {
 public:
  explicit CoreInitStates(const Context& context) : context_(context) {
    states_.fill(uapi::kCinitInvalid);
  }
  // Applies a request and returns the state after it; may wait for another initialiser.
  uint32_t set(uint32_t nc, uint32_t requested);
  void invalidate(uint32_t nc);

 private:
  const Context& context_;
  std::array<uint32_t, uapi::kMaxNcPerDevice> states_;
};

}  // namespace driver

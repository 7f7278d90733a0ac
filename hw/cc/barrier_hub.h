// The on-device barrier between ranks: cells in CC-core windows count arrivals; when all members
// have arrived, all continue at one instant. Source of truth: docs/hardware-contract.md 5.
//
// When that is, hardware leaves open. A machine that runs freely opens a barrier when the last
// member arrives. One that serves requests in epochs holds complete barriers back until it is at
// rest, and opens them together: so that what ranks do does not depend on how their host programs
// were scheduled. Plain logic; the machine's run loop calls release_ready().
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "arch/contract/address_map.h"

namespace hw {

struct BarrierCell {
  uint32_t chip = 0;
  uint32_t topsp = 0;
  uint32_t index = 0;

  bool operator<(const BarrierCell& other) const {
    return std::tie(chip, topsp, index) < std::tie(other.chip, other.topsp, other.index);
  }
};
// The cell at a device address as seen from `own_chip`; chips 0..`chips` - 1 exist.
std::optional<BarrierCell> resolve_barrier(const contract::AddressMap& map, uint32_t own_chip,
                                           uint32_t chips, uint64_t address);
std::string to_string(const BarrierCell& cell);

class BarrierMember {
 public:
  virtual void barrier_open() = 0;
  // Another member of the cell expects a different number.
  virtual void barrier_mismatch() = 0;

 protected:
  ~BarrierMember() = default;
};

class BarrierHub {
 public:
  // False: `members` is zero or differs from what waiting members expect; those are told.
  bool arrive(const BarrierCell& cell, uint32_t members, BarrierMember& member);
  void leave(BarrierMember& member);
  // The CC-core with these cells is reset: nobody has arrived. Who waits there goes on waiting.
  void clear(uint32_t chip, uint32_t topsp);
  void open_on_arrival() { on_arrival_ = true; }
  // Opens every complete barrier, in the order of their cells; false if there is none.
  bool release_ready();

  uint32_t arrived(const BarrierCell& cell) const;
  uint32_t generation(const BarrierCell& cell) const;

 private:
  struct State {
    uint32_t members = 0;
    uint32_t generation = 0;
    std::vector<BarrierMember*> waiting;  // in order of arrival
  };
  static void open(State& state);

  std::map<BarrierCell, State> cells_;
  bool on_arrival_ = false;
};

}  // namespace hw

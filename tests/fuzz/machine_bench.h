// The machine that the fuzz targets of registers and descriptors share: a v2, a v3 and a v4 chip,
// each with a neighbour of its kind, in one process (SystemC elaborates once), brought back to
// power-on state between inputs.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "arch/pcie/pcie.h"
#include "base/units.h"
#include "hw/machine/chip.h"
#include "hw/machine/machine.h"
#include "tests/fuzz/finding.h"

namespace fuzz {

// Guest memory in a few pieces of odd sizes, each in an allocation of its own, so that a sanitizer
// sees whoever leaves it: at the bottom, behind a hole, at the ends of both host windows, and one
// piece that has no pointer (an accessor only).
class GuestMemory final : public pcie::HostMemory {
 public:
  struct Piece {
    uint64_t phys;
    size_t size;
    bool direct;
  };
  static constexpr std::array<Piece, 6> kPieces{{{0, 0x1'4000, true},
                                                 {0x10'0000, 0x8000, false},
                                                 {0x40'0040, 0x1'2340, true},
                                                 {(1ull << 44) - 0x2040, 0x2040, true},
                                                 {(1ull << 46) - 0x1004, 0x1004, true},
                                                 // For the copy that checks an engine.
                                                 {0x0A5A'0000'0000, 0x2000, true}}};
  static constexpr size_t kChecked = 5;

  GuestMemory();
  uint8_t* direct(uint64_t phys, uint64_t length) override;
  bool read(uint64_t phys, base::ByteSpan to) override;
  bool write(uint64_t phys, base::ConstByteSpan from) override;

  uint8_t* piece(size_t i) { return bytes_[i].get(); }
  // Whether the device has used piece kChecked since the last clear().
  bool checked_used() const { return checked_used_; }
  void clear();

 private:
  uint8_t* find(uint64_t phys, uint64_t length, bool direct);

  std::array<std::unique_ptr<uint8_t[]>, kPieces.size()> bytes_;
  std::array<bool, kPieces.size()> used_{};
  bool checked_used_ = false;
};

class MachineBench {
 public:
  static constexpr uint32_t kChips = 3;              // for inputs: v2, v3, v4
  static constexpr uint32_t kAllChips = 2 * kChips;  // and the neighbours of these
  static constexpr base::Ps kMaxSlice = base::us(50);

  // The one of this process.
  static MachineBench& get();

  hw::Machine& machine() { return *machine_; }
  GuestMemory& guest() { return guest_; }
  // For an input that uses it; restore() takes care of these.
  hw::Chip& chip(uint32_t c) {
    touched_ |= 1u << c;
    return machine_->chip(c);
  }
  int register_bar(uint32_t c) { return machine_->chip(c).endpoint().register_bar(); }
  // At most `slice` of simulated time; a machine that stops with an error is a finding.
  hw::RunOutcome run(base::Ps slice);
  // A device reset by the mailbox of the chips that were used, after which the machine must come to
  // rest.
  void reset_devices();
  // Power-on state of the chips that were used: a conventional PCI reset (after which the machine
  // must come to rest), memories and guest memory.
  void restore();

 private:
  // Every chip reaches every other; the windows 0 and 2 of a chip lead to its neighbour.
  class Port final : public hw::ChipPort {
   public:
    explicit Port(MachineBench& bench) : bench_(bench) {}
    hw::Fabric* peer(uint32_t, uint32_t chip) override {
      return chip < kAllChips ? &bench_.chip(chip).fabric() : nullptr;
    }
    uint32_t neighbour(uint32_t self, uint32_t window) const override {
      return window % 2 == 0 ? (self + kChips) % kAllChips : kNoChip;
    }
    base::Ps latency(uint32_t, uint32_t) override { return base::ns(100); }

   private:
    MachineBench& bench_;
  };

  MachineBench();
  void discard_memories(uint32_t c);

  GuestMemory guest_;
  Port port_{*this};
  std::unique_ptr<hw::Machine> machine_;
  uint32_t touched_ = 0;
};

}  // namespace fuzz

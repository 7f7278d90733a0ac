// The descriptor-generating block of one engine: takes transfers from the sequencer, puts their
// descriptors into the rings of a queue and rings the doorbells. Source of truth:
// spec/engine-isa.md 8.2 and 8.3, docs/hardware-contract.md 3.
//
// Model: the block learns a ring from the queue's registers and writes behind its tail. Transfers
// of one queue are dma.t0_ns apart or more; one that does not fit waits for the engines, and looks
// again after that time. GpSimd makes the descriptors of one ring after those of another and rings
// each doorbell when they are there; a hardware block rings all at once. Exact: descriptors, order
// per queue. Approximate: times. Missing: how many transfers the block holds is not published; here
// it takes no more than kMostHeld descriptors, for the memory of the host.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>

#include "hw/check/checker.h"
#include "hw/core/generated_transfer.h"
#include "hw/params.h"

namespace hw {

class DescriptorGenerator {
 public:
  static constexpr uint32_t kQueues = 16;
  static constexpr uint64_t kMostHeld = uint64_t{1} << 20;

  // `checker`: null: none.
  DescriptorGenerator(Fabric& fabric, uint32_t nc, const TimingParams& timing,
                      check::Checker* checker)
      : fabric_(fabric),
        timing_(timing),
        checker_(checker),
        first_engine_(nc * contract::kDmaPerNc) {}

  // Until when the block works on an instruction; the next one waits.
  base::Ps busy_until() const { return busy_until_; }
  void occupy(base::Ps until) { busy_until_ = until; }

  // It takes the next transfer when some of those that it holds are in their rings.
  bool full() const { return held_ >= kMostHeld; }
  // The queue of a transfer that waits for room in its rings, if there is one.
  std::optional<uint32_t> waits_for() const;

  // Whether the queue's rings are set up and have room for `most` descriptors of each direction.
  bool ready(uint32_t queue, uint64_t most) const;
  // The first descriptors are begun `at`, or later; `each` is the time that a pair of them takes;
  // the doorbells are whose `release` this is. Returns when to call advance().
  base::Ps submit(GeneratedTransfer transfer, base::Ps at, base::Ps each, check::Release release);
  struct Next {
    base::Ps at;
    bool waits;  // for nothing but room, which somebody else has to make
  };
  // Puts what is due by `now` into the rings; when to call again, if there is more.
  std::optional<Next> advance(base::Ps now);
  void reset();

 private:
  struct Pending {
    GeneratedTransfer transfer;
    base::Ps at;        // of the next doorbell
    base::Ps each;      // pair of descriptors
    uint32_t ring = 0;  // the next one
    bool waits = false;
    check::Release release;
  };
  struct RingState;
  uint64_t registers(uint32_t queue, uint32_t e, bool receive) const;
  std::optional<RingState> ring_state(uint64_t registers) const;
  bool fits(const GeneratedTransfer& transfer) const;
  void put(const Pending& pending, uint32_t e);
  // What is due; whether all of it has been put.
  bool put_due(Pending* p, base::Ps now);

  Fabric& fabric_;
  const TimingParams& timing_;
  check::Checker* checker_;
  uint32_t first_engine_;
  base::Ps busy_until_ = 0;
  std::array<base::Ps, kQueues> next_{};  // of each queue
  std::deque<Pending> pending_;           // in the order of instructions
  uint64_t held_ = 0;                     // descriptors of these
};

}  // namespace hw

// Lowering of one rank's part of a schedule, in three parts: how steps become descriptors
// (Descriptors), which signals travel between ranks (Signals), and the CC program that ties them
// together (lowering.cpp).
#pragma once

#include <vector>

#include "runtime/collectives/ccl.h"
#include "runtime/collectives/schedule.h"

namespace ccl {

// Own steps in flight per rank: step i is issued only when step i - kWindow is complete, so that a
// semaphore never mixes the contributions of engines to two steps.
constexpr uint32_t kWindow = 4;

// Semaphore numbers of a rank, from its semaphore_base: kWindow completion counters of own steps,
// then per peer {ready, end, kWindow data counters}.
struct SemaphoreLayout {
  static constexpr uint32_t kPerPeer = 2 + kWindow;
  static constexpr uint32_t done(uint32_t own_step) { return own_step % kWindow; }
  static constexpr uint32_t ready(uint32_t peer) { return kWindow + peer * kPerPeer; }
  static constexpr uint32_t end(uint32_t peer) { return ready(peer) + 1; }
  static constexpr uint32_t data(uint32_t peer, uint32_t signal) {
    return ready(peer) + 2 + signal % kWindow;
  }
  static constexpr uint32_t count(uint32_t ranks) { return kWindow + ranks * kPerPeer; }
};

// Engines a rank spreads its steps over; the same for all its steps of one operation.
uint32_t engines_of(const Schedule& schedule, uint32_t rank);

// Who tells whom what, derived from the schedule alone, so that all ranks agree.
class Signals {
 public:
  explicit Signals(const Schedule& schedule);

  // `by` reads, writes or signals `of`: `of` must be ready before and is told about the end.
  bool touches(uint32_t by, uint32_t of) const { return touches_[by * ranks_ + of]; }
  // Ranks that wait for this step.
  const std::vector<uint32_t>& waiters(uint32_t step) const { return waiters_[step]; }
  // Number of a step among those that `from` signals to `to`; the step must be one of them.
  uint32_t number(uint32_t step, uint32_t to) const;
  // How many signals `from` sends to `to` in one operation.
  uint32_t count(uint32_t from, uint32_t to) const { return counts_[from * ranks_ + to]; }
  // Last step of `by` that touches `of`.
  uint32_t last_touch(uint32_t by, uint32_t of) const { return last_[by * ranks_ + of]; }

 private:
  void touch(uint32_t by, uint32_t of, uint32_t step);

  uint32_t ranks_;
  std::vector<bool> touches_;
  std::vector<uint32_t> last_;
  std::vector<uint32_t> counts_;
  std::vector<std::vector<uint32_t>> waiters_;
  std::vector<std::vector<uint32_t>> numbers_;  // parallel to waiters_
};

// Appends descriptors of one rank to its engines' rings.
class Descriptors {
 public:
  Descriptors(const OpRequest& request, const RankResources& own, uint32_t engines,
              uint32_t packet_bytes);

  // One step. `barrier`: its first packet waits for the queue to be idle (DMB). `signals`:
  // addresses of increment windows that every engine adds 1 to when its part is complete.
  void add_step(const std::vector<uint64_t>& sources, uint64_t destination, uint64_t bytes,
                bool barrier, const std::vector<uint64_t>& signals);

  // Descriptors that the last add_step() appended per engine.
  struct Counts {
    uint32_t m2s = 0;
    uint32_t s2m = 0;
  };
  const std::vector<Counts>& counts() const { return counts_; }
  std::vector<EngineRing> take() { return std::move(rings_); }

 private:
  struct Piece {
    uint64_t offset = 0;
    uint32_t bytes = 0;
  };
  std::vector<Piece> pieces(uint32_t engine, uint64_t bytes, uint32_t limit) const;
  void add_packet(EngineRing* ring, const std::vector<uint64_t>& sources, uint64_t destination,
                  const Piece& piece, bool barrier, bool last);

  OpRequest request_;
  uint64_t one_word_;
  uint32_t packet_bytes_;
  std::vector<EngineRing> rings_;
  std::vector<Counts> counts_;
};

}  // namespace ccl

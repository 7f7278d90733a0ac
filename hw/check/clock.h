// Vector clocks: what an agent knows to be over, by agent. An agent is an engine's in-order front,
// an engine's results, its block that generates descriptors, a DMA queue, or a CC-core; its epoch
// counts what it does, from 1.
//
// What one knows is mostly what its neighbours know too. So a clock is a base, shared by all who
// have it from the same agent, and a few entries above that; bases remember others that they cover.
// Most joins look at a few entries, and only news from afar at all agents.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace hw::check {

class Clock {
 public:
  Clock() = default;
  // `made`: counts the bases of a machine.
  Clock(const std::vector<uint32_t>& epochs, uint64_t& made);

  // 0: nothing is known.
  uint32_t entry(uint32_t agent) const;
  // Whether what an agent did is known to be over.
  bool reaches(uint32_t agent, uint32_t epoch) const;
  void raise(uint32_t agent, uint32_t epoch);
  void join(const Clock& from, uint64_t& made);
  // Moves the entries above the base into a new one if there are many; earlier if many will have
  // it, who then need not do it themselves.
  void limit(uint64_t& made);
  void settle_for_many(uint64_t& made);
  size_t bytes() const;

 private:
  struct Base {
    uint64_t number = 0;
    std::vector<uint32_t> epochs;         // by agent; missing ones are 0
    mutable std::vector<uint64_t> below;  // numbers of some bases that this one covers

    uint32_t of(uint32_t agent) const { return agent < epochs.size() ? epochs[agent] : 0; }
    bool covers(uint64_t other) const;
    void remember(uint64_t other) const;
  };
  struct Entry {
    uint32_t agent;
    uint32_t epoch;
  };

  std::vector<Entry>::const_iterator find(uint32_t agent) const;
  void join_base(const std::shared_ptr<const Base>& theirs, uint64_t& made);
  void adopt(std::shared_ptr<const Base> base);
  void settle(uint64_t& made);

  std::shared_ptr<const Base> base_;  // null: knows nothing
  std::vector<Entry> above_;          // by agent; higher than the base has it
};

using Snapshot = std::shared_ptr<const Clock>;

// Somebody's view of what is over: the own past always is.
struct View {
  static constexpr size_t kOwn = 3;
  const Clock* clock = nullptr;  // null: everything is over
  std::array<uint32_t, kOwn> own{};

  bool knows(uint32_t agent, uint32_t epoch) const {
    return clock == nullptr || agent == own[0] || agent == own[1] || agent == own[2] ||
           clock->reaches(agent, epoch);
  }
};

}  // namespace hw::check

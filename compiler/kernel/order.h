// Which earlier accesses of others an instruction or transfer must come after, and which of them it
// has to wait for.
//
// Agents are the five engines, the streams of collectives and the queue sets. What an agent does
// completes in order: an engine's instructions (spec/engine-isa.md 1), a stream's collectives
// (spec/neff.md 4.5 C-1), and the transfers of a queue set, because each of its queues is in order
// and signals each transfer (spec/neff.md 3.8). So "the first n of agent a
// are complete" is all that anyone can know of a, and a clock holds that number for every agent. An
// engine's clock grows when it waits: by what it waits for, and by what was known when that was
// begun. A wait is necessary only where the clock says less.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "compiler/kernel/footprint.h"

namespace kernel {

// The `number`-th, from 1, of an agent.
struct Event {
  uint32_t agent = 0;
  uint32_t number = 0;
};

struct MemoryAccess {
  Footprint footprint;
  bool write = false;
};

class Order {
 public:
  static constexpr uint32_t kEngines = contract::isa::kEngines;
  static constexpr uint32_t kFirstStream = kEngines;
  static constexpr uint32_t kStreams = 4;
  static constexpr uint32_t kFirstQueueSet = kFirstStream + kStreams;
  // Transfers of a queue set that may be under way at once: the next one waits for the one so many
  // before it.
  static constexpr uint32_t kWindow = 16;
  // The same of a stream: a CC-core keeps 256 triggers (docs/hardware-contract.md 5).
  static constexpr uint32_t kStreamWindow = 128;

  Order();

  // A new queue set.
  uint32_t add_agent();

  struct Step {
    Event event;               // what this one is
    std::vector<Event> waits;  // what its engine waits for before it
  };
  // An instruction: those of its own engine come before it anyway.
  Step instruction(uint32_t engine, const std::vector<MemoryAccess>& accesses);
  // A transfer of a queue set, or a collective of a stream, that `engine` triggers.
  Step transfer(uint32_t engine, uint32_t agent, const std::vector<MemoryAccess>& accesses);
  // Nothing but waits: everything that has been done so far is complete.
  std::vector<Event> join(uint32_t engine);

 private:
  using Clock = std::vector<uint32_t>;
  struct Record {
    MemoryAccess access;
    Event event;
  };

  // The latest of each agent that `accesses` must come after.
  Clock needed(const std::vector<MemoryAccess>& accesses);
  std::vector<Event> wait(uint32_t engine, Clock need);
  void add(const std::vector<MemoryAccess>& accesses, const Event& event);
  Event begin(uint32_t agent, uint32_t engine);

  std::vector<Clock> engines_;              // what each engine knows to be complete
  std::vector<std::vector<Clock>> events_;  // per agent and event: what its completion tells
  std::unordered_map<uint64_t, std::vector<Record>> records_;  // per memory
};

}  // namespace kernel

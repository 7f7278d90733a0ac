// Order of the steps of a channel: what must be over before a step starts, and what that takes.
// Steps are issued in their order and overlap. Where a step follows another (`after`) and touches
// bytes that the other still uses - it reads what is written, writes what is read, writes what is
// written - the data must be there first: either a DMB of its engines sees to it, or the CC-core
// waits. Pure: says what to wait for; the lowering writes it down.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "runtime/collectives/lowering.h"

namespace ccl {

// What it takes that a step starts when an earlier one, whose engines it uses too, is complete.
enum class Order : uint8_t {
  kQueue,  // nothing: they touch different bytes, and signals follow the data of their queue
  kFence,  // a DMB, if they use the same engines: what they share is on one engine
  kWait,   // the CC-core waits
};

class StepOrder {
 public:
  // Tells bytes of memory apart: the number of the range's first byte, those behind it follow.
  using Identity = std::function<uint64_t(const Range&)>;
  // `steps`, all of a rank, and `layout` outlive the object.
  StepOrder(const Steps& steps, uint32_t channels, const Layout& layout, Identity identity);

  // The CC-core waits for these, in this order: one step, by its ordinal among the channel's steps
  // that are not fan-outs, or that many fan-outs, which are all in flight.
  struct Over {
    bool fan_outs = false;
    uint32_t number = 0;
  };
  struct Admission {
    std::vector<Over> waits;
    EngineRange engines;   // of a step with bytes
    bool barrier = false;  // each engine's first packet waits for its queue to be idle (DMB)
    uint32_t ordinal = 0;  // unless the step is a fan-out
  };
  // The next step of the list. `moves`: it has bytes to move.
  Admission admit(bool moves);
  // The next one, of variable size: its blocks are waited for where their row ends.
  void admit_block();
  // Everything of the channel, at the end.
  std::vector<Over> drain(uint32_t channel);

 private:
  struct Issued {  // by step of the list
    uint32_t ordinal = 0;
    bool data = false;
    bool fan_out = false;
    EngineRange engines;
  };
  struct Channel {
    std::vector<bool> ordered;       // by ordinal: the step has bytes
    uint32_t completed = 0;          // ordered steps waited for
    uint32_t fanned_out = 0;         // fan-out steps in flight
    uint32_t next_engine = 0;        // in the share
    std::vector<uint32_t> followed;  // steps that later ones follow without a wait
    // By engines: the last step with a DMB.
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> fences;
  };

  const Step& step() const { return steps_[issued_.size()]; }
  Channel& channel() { return channels_[step().channel]; }
  void count_fan_outs();
  std::vector<uint32_t> predecessors();
  void forget_completed();
  bool in_flight(uint32_t before) const;
  bool follow(Admission* admission);
  EngineRange next_engines();
  EngineRange engines_behind(const EngineRange& used) const;
  Order order_after(uint32_t before, const EngineRange& engines) const;
  Order meet(const std::vector<Range>& a, uint64_t a_bytes, const std::vector<Range>& b,
             uint64_t b_bytes, bool one_engine) const;
  bool fenced(const EngineRange& engines, uint32_t before) const;
  void complete(uint32_t before, std::vector<Over>* waits);
  static void complete_through(Channel* channel, uint32_t ordinal, std::vector<Over>* waits);
  static void complete_fan_outs(Channel* channel, std::vector<Over>* waits);

  const Steps& steps_;
  const Layout& layout_;
  Identity identity_;
  std::vector<Channel> channels_;
  std::vector<Issued> issued_;
  std::vector<uint32_t> fan_outs_;  // by step: how many of its channel are in flight together
};

}  // namespace ccl

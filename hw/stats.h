// What a run counts, and the hook through which blocks report spans of activity. Counters are the
// same whether payload moves or is elided, but for elided_bytes and elided_reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/units.h"

namespace hw {

struct Counters {
  uint64_t descriptors = 0;      // consumed, M2S and S2M
  uint64_t packets = 0;          // DMA packets executed
  uint64_t compute_packets = 0;  // of these, with a reduction or conversion
  uint64_t doorbells = 0;        // tail increments accepted
  uint64_t bytes = 0;            // destination bytes of DMA packets
  uint64_t register_writes = 0;  // 4-byte DMA writes into register windows (semaphores, doorbells)
  uint64_t elided_bytes = 0;     // timing-only: payload not moved
  uint64_t elided_reads = 0;     // timing-only: a check or branch read elided bytes
  uint64_t dma_errors = 0;       // error causes raised by DMA engines
  uint64_t bad_doorbells = 0;    // tail increments that overflow or hit a queue without ring
  uint64_t notifications = 0;    // entries written
  uint64_t semaphore_updates = 0;
  uint64_t generated_transfers = 0;    // whose descriptors an engine has made
  uint64_t generated_descriptors = 0;  // pairs of them, without completions
};

// Register accesses that no block models, by block and name or offset. Ordered, so that reports are
// repeatable. A scan cannot fill it: past kDistinct entries of one kind, further ones are counted
// together.
class AccessLog {
 public:
  static constexpr size_t kDistinct = 512;

  enum class Kind : uint8_t {
    kUnknown,      // no register at the offset, or no block at the address
    kUnsupported,  // a known register whose effect is not modelled
    kPartial,      // not an aligned 32-bit access
    kDenied,       // write to a read-only register
  };
  using Key = std::tuple<std::string, Kind, std::string, bool>;  // block, kind, register, write

  void count(std::string_view block, Kind kind, std::string_view reg, bool write) {
    Key key(block, kind, reg, write);
    auto at = entries_.find(key);
    if (at == entries_.end()) {
      if (distinct_[static_cast<size_t>(kind)] == kDistinct) {
        key = Key("all", kind, "other places", write);
      } else {
        ++distinct_[static_cast<size_t>(kind)];
      }
      at = entries_.emplace(std::move(key), 0).first;
    }
    ++at->second;
  }
  const std::map<Key, uint64_t>& entries() const { return entries_; }
  uint64_t total(Kind kind) const {
    uint64_t sum = 0;
    for (const auto& [key, n] : entries_) sum += std::get<1>(key) == kind ? n : 0;
    return sum;
  }

 private:
  std::map<Key, uint64_t> entries_;
  size_t distinct_[4] = {};  // per kind
};

struct InstructionEvent;  // hw/core/instruction_trace.h

// Receives spans; a trace back end implements it. Blocks hold a Tracer* that may be null.
//
// A flow leads from what changed a semaphore to who had waited for it; 0 is none.
class Tracer {
 public:
  virtual ~Tracer() = default;
  // A track appears once per name; ids are stable for the run.
  virtual uint32_t track(const std::string& name) = 0;
  // `flow` leads away from the end of the span, and may arrive nowhere.
  virtual void span(uint32_t track, base::Ps begin, base::Ps end, const char* name, uint64_t bytes,
                    uint64_t flow = 0) = 0;
  // An instruction of a NeuronCore's engine, in program order, when it is known whom it released.
  virtual void instruction(uint32_t /*track*/, const InstructionEvent& /*event*/) {}
  // The first engine of a core ("d0.nc1") starts a program; the last one stops, or a reset ends it
  // without a result.
  virtual void execution_begins(const std::string& /*core*/, uint64_t /*program*/,
                                base::Ps /*now*/) {}
  virtual void execution_ends(const std::string& /*core*/, base::Ps /*now*/, bool /*complete*/) {}

  uint64_t new_flow() { return ++flows_; }
  // The flow of the write of DMA that takes effect now. The first waiter takes it.
  void set_applying(uint64_t flow) { applying_ = flow; }
  uint64_t take_applying() { return std::exchange(applying_, 0); }

 private:
  uint64_t flows_ = 0;
  uint64_t applying_ = 0;
};

}  // namespace hw

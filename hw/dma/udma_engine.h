// One DMA engine: a UDMA unit (M2S half, S2M half, interrupt groups), 16 queue pairs.
// Source: spec/hw-registers.md 3; docs/hardware-contract.md 6; spec/timing.md 5.
//
// Exact: registers, ring pointers and ids, doorbells, packet shapes, barriers, error causes, order.
// Approximate: time (hw/dma/packet_plan.h). Descriptor fetch, first-byte and write-acknowledge
// latencies delay when descriptors and writes become visible; they occupy nothing. A packet that
// finds RX descriptors for a part of its bytes delivers that part first. Missing: completion rings
// (no driver enables them), interrupts, CRC and swap operations (they raise a stream response
// error), second buffers of receive descriptors.
//
// This class has the registers (udma_registers.cpp) and decides which queue is next and what
// happens after errors (udma_engine.cpp). The rest are its parts:
//   DescriptorQueues  rings, pointers, prefetch        PacketPlan     times of packets at work
//   PacketAssembler   the next packet of a queue       PacketEffects  data, signals, the outside
//   PacketList        packets at work, and that one
// Prefetched descriptors are an event only for an engine that has nothing to do.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "contract/regs/udma.h"
#include "hw/dma/cache_hints.h"
#include "hw/dma/descriptor_queues.h"
#include "hw/dma/dma_checks.h"
#include "hw/dma/dma_context.h"
#include "hw/dma/packet.h"
#include "hw/dma/packet_assembler.h"
#include "hw/dma/packet_effects.h"
#include "hw/dma/packet_list.h"
#include "hw/dma/packet_plan.h"
#include "hw/nq/nq_block.h"
#include "hw/reg/reg_block.h"
#include "hw/stats.h"
#include "hw/time/bandwidth.h"
#include "hw/time/event_queue.h"

namespace hw {

class UdmaEngine final : public RegBlock<UdmaEngine>,
                         public EventSink,
                         public Run,
                         private DmaErrors {
 public:
  static constexpr uint32_t kQueues = DescriptorQueues::kQueues;

  UdmaEngine(DmaContext& context, uint32_t index);

  static const RegTable<UdmaEngine>& table();

  // As after a device reset: registers, queues, state; what is in flight is dropped.
  void reset();
  // Tries again what has had no answer.
  void look_again();
  std::string instance() const override { return name(); }
  // Where DMA-trace notifications go; outlives the engine.
  void set_trace_queue(NqBlock* queue) { trace_queue_ = queue; }
  bool busy() const { return running_ || effects_.deferred(); }
  // Descriptors in the M2S half of a queue.
  uint32_t depth(uint32_t q) const {
    const QueuePair* queue = queues_.touched(q);
    return queue == nullptr ? 0 : queue->half[kM2s].pending;
  }
  BandwidthResource& resource() { return resource_; }
  const std::string& name() const { return resource_.name(); }
  // Adds one line if it has aborted, and one per queue whose descriptors wait, for hang reports.
  void who_waits(std::vector<std::string>& lines) const;

  bool access(uint64_t offset, uint8_t* data, size_t size, bool write, bool debug) override;
  void on_event(const EventKey& key, uint32_t tag, uint64_t argument) override;
  void expect(uint32_t tag, uint64_t argument) override;
  void yield_to(const EventKey& key) override;

 private:
  enum class State : uint8_t { kNormal, kDisabled, kAborted };
  enum Tag : uint32_t { kTagWake, kTagStart, kTagEffect, kTagAnswered };

  // Registers (udma_registers.cpp).
  template <Half H>
  uint32_t read_status(uint32_t q, uint32_t, bool debug);
  template <Half H>
  uint32_t read_head(uint32_t q, uint32_t, bool debug);
  template <Half H>
  uint32_t read_tail(uint32_t q, uint32_t, bool);
  template <Half H>
  uint32_t read_current(uint32_t q, uint32_t, bool debug);
  template <Half H>
  void write_cfg(uint32_t q, uint32_t value);
  template <Half H>
  void write_base_lo(uint32_t q, uint32_t value);
  template <Half H>
  void write_base_hi(uint32_t q, uint32_t value);
  template <Half H>
  void write_length(uint32_t q, uint32_t value);
  template <Half H>
  void write_tail_inc(uint32_t q, uint32_t value);
  template <Half H>
  void write_sw_ctrl(uint32_t q, uint32_t value);
  template <Half H>
  uint32_t read_state(uint32_t, uint32_t, bool debug);
  template <Half H>
  void write_change_state(uint32_t, uint32_t value);
  template <uint32_t Register>
  void write_stream_cfg(uint32_t, uint32_t value);
  template <uint32_t Group>
  uint32_t read_cause(uint32_t g, uint32_t stored, bool debug);
  template <uint32_t Group>
  void write_cause(uint32_t g, uint32_t value);
  template <uint32_t Group>
  void write_cause_set(uint32_t g, uint32_t value);
  template <uint32_t Group>
  void write_mask(uint32_t g, uint32_t value);
  template <uint32_t Group>
  void write_mask_clear(uint32_t g, uint32_t value);
  template <uint32_t Group>
  uint32_t read_irq_status(uint32_t g, uint32_t, bool);

  bool enabled(uint32_t q, Half h) const;  // both bits of cfg
  bool normal() const { return state_[kM2s] == State::kNormal && state_[kS2m] == State::kNormal; }
  bool aborted(Half h) const { return state_[h] == State::kAborted; }
  bool working() const;  // in the sense of the state registers
  const EngineConfig& config() {
    if (!config_.known) configure();
    return config_;
  }
  void configure();
  void request_prefetch(uint32_t q, Half h);
  void go_on();  // after something that stopped prefetch or packets is over
  bool abort_masked(Half h, uint32_t cause) const;
  void summarise();

  // Scheduling (udma_engine.cpp).
  void arrive(base::Ps until) { queues_.arrive(until, aborted(kM2s), aborted(kS2m)); }
  EventKey key(base::Ps at, Phase phase) const { return {at, component_, phase}; }
  void start_at(base::Ps at);
  void kick(base::Ps at);
  void await_arrival();
  void wake(base::Ps at);
  void start(base::Ps at);
  uint32_t ask_arbiter(uint32_t candidates);
  uint32_t next_queue(uint32_t candidates);
  Assembly assemble(uint32_t q, base::Ps at);
  bool arbitrate(base::Ps at);
  void wake_stalled(uint32_t q);
  bool other_eligible(uint32_t q, base::Ps at);
  void drop_erroneous(const Packet& packet);
  void plan(base::Ps at);
  size_t run_limit() const;
  void settle(base::Ps now);
  void settle_for_read(bool debug);
  void finish(base::Ps until);
  bool begin_outward(const PlannedPacket& planned);
  void answered(base::Ps at);
  void complete(const PlannedPacket& planned);
  void defer(const PlannedPacket& planned, uint64_t flow);
  uint64_t count(const PlannedPacket& planned);
  bool traced() const { return trace_queue_ != nullptr && trace_queue_->enabled(0); }
  void post_trace(const PlannedPacket& planned, RingPointer first, uint32_t bytes);
  void raise(Half h, uint32_t cause) override;
  void note(Half h, uint32_t cause);
  void abort(bool m2s = true, bool s2m = true);

  // First what every event touches, then what a packet does.
  DmaContext& context_;
  uint32_t component_;
  State state_[2] = {State::kNormal, State::kNormal};
  bool completing_ = false;  // moving data: the engine may be reading its own registers
  bool running_ = false;
  bool awaits_ = false;      // the next start is for descriptors that arrive then
  uint32_t unanswered_ = 0;  // active queues whose next packet is never answered
  uint32_t last_queue_ = kQueues - 1;
  uint32_t streak_ = 256;  // packets since the last time a run had to yield
  EventQueue::Id start_event_ = 0;
  CacheHints hints_;
  EngineConfig config_;
  DescriptorQueues queues_;
  BandwidthResource resource_;
  PacketList packets_;
  PacketPlan plan_;
  PacketAssembler assembler_;
  PacketEffects effects_;
  uint32_t noted_[2] = {};  // causes that were set since the last register access
  uint32_t summary_ = 0;    // live inputs of primary group D
  NqBlock* trace_queue_ = nullptr;
  std::unique_ptr<soma::QueueArbiter> arbiter_;  // in place of our own
  std::unique_ptr<DmaChecks> checks_;            // null: none
};

}  // namespace hw

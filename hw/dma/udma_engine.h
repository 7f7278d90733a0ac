// One DMA engine: a UDMA unit (M2S half, S2M half, interrupt groups), 16 queue pairs.
// Source: spec/hw-registers.md 3; docs/hardware-contract.md 6; spec/timing.md 5.
//
// Exact: registers, ring pointers and ids, doorbells, packet shapes, barriers, error causes, order.
// Approximate: time. The engine moves one packet at a time; a packet starts when the one before has
// ended on all resources of its path, reserves each of them at its start and ends when the last one
// does. Where the path is busy and no other of its queues waits, it reserves it for a burst at
// once: dma.burst_packets of a queue and the signal behind them, which share the time by their
// bytes. Descriptor fetch, first-byte and write-acknowledge latencies delay when descriptors and
// writes become visible; they occupy nothing. A packet that finds RX descriptors for a part of its
// bytes delivers that part first. Missing: completion rings (no driver enables them), interrupts,
// CRC and swap operations (they raise a stream response error), second buffers of receive
// descriptors.
//
// While it is alone on its path, the engine executes many packets as one event (a run). The
// arithmetic is that of single packets; when another reserves one of the resources, or another
// queue of the engine becomes ready, what has not started is given back. On a busy path every burst
// is an event; prefetched descriptors are one only for an engine that has nothing to do.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <string>
#include <utility>
#include <vector>

#include "base/slot_pool.h"
#include "contract/regs/udma.h"
#include "hw/dma/mover.h"
#include "hw/dma/outward_transfer.h"
#include "hw/dma/packet.h"
#include "hw/dma/routes.h"
#include "hw/dma/small_vector.h"
#include "hw/mem/fabric.h"
#include "hw/nq/nq_block.h"
#include "hw/reg/reg_block.h"
#include "hw/stats.h"
#include "hw/time/bandwidth.h"
#include "hw/time/event_queue.h"

namespace hw {

// Objects of a chip that are touched in turn lie together: fewer pages to look up.
struct InPlaceDelete {
  template <typename T>
  void operator()(T* object) const {
    object->~T();
  }
};
template <typename T>
using InPlace = std::unique_ptr<T, InPlaceDelete>;
template <typename T, typename... Args>
InPlace<T> make_in(std::pmr::memory_resource& memory, Args&&... args) {
  void* at = memory.allocate(sizeof(T), alignof(T));
  return InPlace<T>(new (at) T(std::forward<Args>(args)...));
}

class UdmaEngine;

// A signal between the end of its packet, when its source was read, and its effect.
struct DeferredSignal {
  static constexpr size_t kWords = 3;
  struct Long {
    std::vector<Buffer> targets;
    std::vector<uint8_t> data;
  };
  UdmaEngine* engine = nullptr;  // null: none
  EventQueue::Id event = 0;
  uint32_t words = 0;  // of 4 bytes, each for a target of its own, when that is all
  std::array<uint32_t, kWords> data{};
  std::array<uint64_t, kWords> targets{};
  std::unique_ptr<Long> rest;  // otherwise
};

// What all DMA engines of a chip share.
struct DmaContext {
  Fabric& fabric;
  EventQueue& events;
  const TimingParams& timing;
  Counters& counters;
  AccessLog& log;
  Tracer* tracer = nullptr;
  bool timing_only = false;
  uint32_t real_bytes = 512;  // timing_only.real_bytes: payload up to this size always moves
  bool coalesce = true;
  QueuePolicy policy;
  Routes routes;
  Charges charges;  // of the packets that an engine is looking at
  base::SlotPool<DeferredSignal> deferred;
  std::pmr::monotonic_buffer_resource memory;
};

struct RingPointer {
  uint32_t index = 0;
  uint32_t ring_id = 1;  // of the lap that `index` is in

  // A ring may be taken away (length 0) under its pointers, or become shorter.
  RingPointer plus(uint32_t n, uint32_t length) const {
    if (length == 0) return *this;
    const uint64_t at = uint64_t{index} + n;
    if (at < length) return {static_cast<uint32_t>(at), ring_id};
    return {static_cast<uint32_t>(at % length), (ring_id + static_cast<uint32_t>(at / length)) & 3};
  }
  uint32_t word() const { return index | ring_id << 30; }
};

struct HalfQueue {
  uint64_t base = 0;
  uint32_t length = 0;
  RingPointer tail, current;
  uint32_t pending = 0;           // from current to tail
  uint32_t requested = 0;         // of these, prefetch has been started for
  uint32_t visible = 0;           // of these, prefetched
  uint32_t generation = 0;        // counts resets
  const uint8_t* ring = nullptr;  // the ring, when it lies in one piece of device memory
};

class UdmaEngine final : public RegBlock<UdmaEngine>, public EventSink, public Run {
 public:
  static constexpr uint32_t kQueues = contract::kQueuesPerEngine;

  UdmaEngine(DmaContext& context, uint32_t index);
  ~UdmaEngine() override;

  static const RegTable<UdmaEngine>& table();

  // As after a device reset: registers, queues, state; what is in flight is dropped.
  void reset();
  // Tries again what has had no answer.
  void look_again();
  std::string instance() const override { return name(); }
  // Where DMA-trace notifications go; outlives the engine.
  void set_trace_queue(NqBlock* queue) { trace_queue_ = queue; }
  bool busy() const { return running_ || deferred_ != 0; }
  // Descriptors in the M2S half of a queue.
  uint32_t depth(uint32_t q) const {
    return queues_[q] == nullptr ? 0 : queues_[q]->half[kM2s].pending;
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
  enum class Assembly : uint8_t { kNone, kPacket, kStalled, kError };
  enum Tag : uint32_t { kTagWake, kTagStart, kTagEffect, kTagAnswered };

  struct alignas(64) Queue {
    HalfQueue half[2];
    base::Ps visible_at = 0;     // when the last write of the queue is acknowledged
    base::Ps barrier_until = 0;  // later writes must not be visible before
    base::Ps wake_at = 0;        // last time scheduled for looking again at a stalled queue
    uint32_t sent = 0;           // bytes of the next packet that parts of it have delivered
    bool dmb_waits = false;      // the next packet has found that it must wait
    bool dmb_released = false;   // by software: the next packet does not
    uint32_t track = ~0u;
  };
  // Descriptors on their way from a ring. All take the same time: they arrive in order.
  struct Arrival {
    base::Ps time;
    uint32_t count;
    uint32_t generation;  // of the half
    uint8_t queue;
    Half half;
  };
  struct PlannedRun {
    SmallVector<Packet, 3> packets;
    SmallVector<Buffer, 14> buffers;
    std::vector<Scales> scales;
    std::vector<Charge> charges;  // as long as resources are claimed
    base::Ps barrier_before = 0;  // of the queue, when the run was planned
    size_t done = 0;              // packets whose effect has been performed
    bool claimed = false;         // reservations are not made yet, resources are claimed
    void clear();
  };
  // Values of registers that packets look at.
  struct Config {
    bool known = false;  // since the last write to a register
    bool stream_on = false;
    bool zero_is_64k = false;
    bool classes = false;  // queues differ in service class
    bool ring_id_masked[2] = {};
    uint32_t scheduled = 0;        // queues whose packets start
    uint32_t prefetching[2] = {};  // queues whose rings are read
    uint32_t dmb_ignored = 0;      // queues
    uint32_t max_bytes = 0;
    uint32_t max_descriptors = 0;
    std::array<uint8_t, kQueues> service_class{};
  };
  // Where a packet is looked for: behind these descriptors of its queue.
  struct Behind {
    uint32_t tx = 0;
    uint32_t rx = 0;
    bool joins = false;    // the burst of the packets before
    uint64_t packets = 0;  // so many
  };
  // Buffers in a row that lie in one place.
  struct SameRoute {
    const Route* route = nullptr;
    uint64_t bytes = 0;
  };
  struct LocalState {
    BandwidthResource* resource;
    BandwidthResource::State state;
  };

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

  // Queues.
  Queue& queue(uint32_t q) { return queues_[q] != nullptr ? *queues_[q] : make_queue(q); }
  Queue& make_queue(uint32_t q);
  bool enabled(uint32_t q, Half h) const;  // both bits of cfg
  bool prefetches(uint32_t q, Half h);
  bool normal() const { return state_[kM2s] == State::kNormal && state_[kS2m] == State::kNormal; }
  bool aborted(Half h) const { return state_[h] == State::kAborted; }
  bool working() const;  // in the sense of the state registers
  void request_prefetch(uint32_t q, Half h);
  void go_on();  // after something that stopped prefetch or packets is over
  void arrive(base::Ps until);
  base::Ps next_arrival() const {
    return arrived_ < arrivals_.size() ? arrivals_[arrived_].time : EventQueue::kForever;
  }
  bool others_arrive(uint32_t q) const;
  void reset_half(uint32_t q, Half h);
  void drop_descriptors(uint32_t q, Half h);
  void ring_changed(uint32_t q, Half h);
  bool fetch(const HalfQueue& half, RingPointer from, contract::Descriptor& to);
  bool read_descriptor(uint64_t address, contract::Descriptor& to);
  void consume(Queue& queue, Half h, uint32_t n);
  void kick(base::Ps at);
  void await_arrival();
  void wake(base::Ps at);
  EventKey key(base::Ps at, Phase phase) const { return {at, component_, phase}; }

  // Packets (udma_assembly.cpp).
  Assembly assemble(uint32_t q, const Behind& behind, base::Ps at);
  Assembly assemble_tx(Queue& queue, uint32_t offset, Packet& packet);
  Assembly assemble_rx(Queue& queue, uint32_t offset, Packet& packet);
  bool fits(const Packet& packet, const Behind& behind) const;
  Assembly judge(Packet& packet, bool stalled, bool joins);
  void charge_again();
  void take_slot(Packet& packet, const contract::Descriptor& d, float& scale);
  bool take_source(Packet& packet, const contract::Descriptor& d, float scale);
  void take_sources(Packet& packet, uint32_t skip, uint32_t bytes);
  bool compute_shape(Packet& packet);
  bool wrong_ring_id(Half h, Packet& packet);
  Assembly fail(Packet& packet, Half h, uint32_t cause);
  void look_at_sources(Packet& packet);
  void look_at_destinations(Packet& packet);
  void charge(const Packet& packet, SameRoute& same);
  Space look(Packet& packet, const Buffer& b, Half h, SameRoute& same);
  uint64_t engine_bytes(const Packet& packet) const;
  bool abort_masked(Half h, uint32_t cause) const;

  // Scheduling (udma_engine.cpp).
  void start(base::Ps at);
  void configure();
  uint32_t next_queue(uint32_t candidates);
  Assembly arbitrate(base::Ps at);
  void wake_stalled(uint32_t q);
  bool other_eligible(uint32_t q, base::Ps at);
  void drop_erroneous(const Packet& packet);
  void plan(base::Ps at);
  void make_way(base::Ps at);
  void extend_burst(uint32_t q, base::Ps at);
  void plan_burst(base::Ps at);
  void await_end(const Packet& packet);
  void look_ahead();
  bool contended(base::Ps at) const;
  void plan_run(base::Ps at, uint32_t q, size_t limit);
  bool extend_run(uint32_t q, const Behind& behind, base::Ps at);
  void reserve_planned();
  BandwidthResource::State& local_state(BandwidthResource& resource);
  void place(Packet& packet, base::Ps at, base::Ps end);
  size_t run_limit() const;
  void claim(bool set);
  void settle(base::Ps now);
  void settle_for_read(bool debug);
  void finish(base::Ps until);
  void complete(Packet& packet);
  bool begin_outward(const Packet& packet);
  void answered(base::Ps at);
  void defer(const Packet& packet);
  void drop_deferred();
  bool read_signal(const Packet& packet, uint8_t* to);
  void effect(uint64_t slot);
  void write_signal(const Buffer& b, const void* from);
  bool elided(const Packet& packet) const;
  Memory* memory_of(const Buffer& b, Half h, uint64_t* offset);
  bool reads_elided(const Buffer* buffers, const Packet& packet);
  void track_elision(const Buffer* buffers, const Packet& packet, bool elided);
  void count(const Packet& packet);
  bool traced() const;
  void post_trace(const Packet& packet, RingPointer first, uint32_t bytes);
  void raise(Half h, uint32_t cause);
  void note(Half h, uint32_t cause);
  void summarise();
  void abort(bool m2s = true, bool s2m = true);

  // First what every event touches, then what a packet does.
  DmaContext& context_;
  uint32_t index_;
  uint32_t component_;
  uint32_t domain_;
  State state_[2] = {State::kNormal, State::kNormal};
  bool completing_ = false;  // moving data: the engine may be reading its own registers
  bool running_ = false;
  bool awaits_ = false;      // the next start is for descriptors that arrive then
  uint32_t active_ = 0;      // queues with prefetched M2S descriptors
  uint32_t unanswered_ = 0;  // of these, queues whose next packet is never answered
  uint32_t last_queue_ = kQueues - 1;
  uint32_t streak_ = 256;  // packets since the last time a run had to yield
  EventQueue::Id start_event_ = 0;
  std::array<const void*, 3> ahead_{};  // what the next packet will read: queue, descriptors
  uint32_t deferred_ = 0;               // signals that have not taken effect
  size_t arrived_ = 0;                  // of arrivals_
  SmallVector<Arrival, 4> arrivals_;
  Config config_;
  std::array<InPlace<Queue>, kQueues> queues_;  // made on first touch
  BandwidthResource resource_;
  PlannedRun run_;
  uint32_t noted_[2] = {};  // causes that were set since the last register access
  NqBlock* trace_queue_ = nullptr;
  Mover mover_;
  std::unique_ptr<soma::QueueArbiter> arbiter_;  // in place of our own
  std::shared_ptr<OutwardTransfer> outward_;     // of the packet at work, until it is completed
  bool outward_over_ = false;
  uint32_t outward_number_ = 0;
  uint32_t summary_ = 0;  // live inputs of primary group D
  std::vector<LocalState> local_;
};

}  // namespace hw

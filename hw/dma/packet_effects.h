// What the packets of one DMA engine do to memories and registers when their time is over: payload
// moves or is elided, signals take effect when they are acknowledged, and what lies outside of the
// machine is asked for.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "hw/dma/dma_context.h"
#include "hw/dma/mover.h"
#include "hw/dma/outward_transfer.h"
#include "hw/dma/packet.h"
#include "hw/dma/packet_plan.h"

namespace hw {

// Who is told what went wrong.
class DmaErrors {
 public:
  virtual void raise(Half h, uint32_t cause) = 0;

 protected:
  ~DmaErrors() = default;
};

class PacketEffects {
 public:
  // `elides`: payload of its packets may be left out in a timing-only run.
  PacketEffects(DmaContext& context, DmaErrors& errors, bool elides)
      : context_(context), errors_(errors), mover_(context.fabric), elides_(elides) {}
  PacketEffects(const PacketEffects&) = delete;
  PacketEffects& operator=(const PacketEffects&) = delete;

  // Moves the payload of a packet that is no signal.
  void move(const Packet& packet, const Buffer* buffers, const Scales* scales);

  // A signal's source is read now, at the end of its packet, and kept. The result is what to pass
  // to take_effect() when it is acknowledged, or kNoSignal after an error. `flow`: of a trace.
  static constexpr uint32_t kNoSignal = ~0u;
  uint32_t defer(const Packet& packet, const Buffer* buffers, uint64_t flow);
  void expect_at(uint32_t signal, EventQueue::Id event) { context_.deferred[signal].event = event; }
  void take_effect(uint32_t signal);
  // Signals that have not taken effect never will.
  void drop_deferred();
  bool deferred() const { return deferred_ != 0; }

  // Packets outside of the machine: `answered` is called, with the number that answers_to() takes,
  // each time that all that was asked for has been answered. True: there is something to wait for.
  bool begin_outward(const Packet& packet, const Buffer* buffers, const Scales* scales,
                     const std::function<void(uint32_t number)>& answered);
  // False: everything has been answered.
  bool go_on_outward();
  bool answers_to(uint64_t number) const { return outward_ != nullptr && number == number_; }
  bool outward() const { return outward_ != nullptr; }
  void end_outward(const Packet& packet, const Buffer* buffers);
  void drop_outward() { outward_.reset(); }

 private:
  bool elided(const Packet& packet) const;
  void track_elision(const Buffer* buffers, const Packet& packet, bool elided);
  bool read_signal(const Packet& packet, const Buffer* buffers, uint8_t* to);
  void write(const DeferredSignal& d);
  void write_signal(const Buffer& target, const uint8_t* from);
  void raise(const Mover::Outcome& outcome);

  DmaContext& context_;
  DmaErrors& errors_;
  Mover mover_;
  bool elides_;
  bool outward_over_ = false;
  uint32_t deferred_ = 0;                     // signals that have not taken effect
  uint32_t number_ = 0;                       // of the transfer
  std::shared_ptr<OutwardTransfer> outward_;  // of the packet at work, until it is completed
};

}  // namespace hw

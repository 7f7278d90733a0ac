// The packets that a DMA engine is executing, and when: each starts when the one before has ended
// on all resources of its path, reserves each of them at its start and ends when the last one does.
// Two strategies put several packets of a queue into time together:
//
//   burst  on a busy path: timing.dma_burst_packets and the signal behind them reserve the path at
//          once and share the time by their bytes
//   run    alone on its path: many packets are one event. Nothing is reserved yet, the resources
//          are claimed; when another reserves one of them, what has not started is given back. The
//          arithmetic is that of single packets: nobody can tell the difference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hw/dma/dma_context.h"
#include "hw/dma/packet_assembler.h"
#include "hw/dma/packet_list.h"
#include "hw/time/bandwidth.h"

namespace hw {

class PacketPlan {
 public:
  // `component`: of the events of the engine; `claimer`: who is asked to yield.
  PacketPlan(DmaContext& context, PacketList& packets, uint32_t component, Run& claimer)
      : context_(context), packets_(packets), claimer_(claimer), component_(component) {}
  ~PacketPlan() { claim(false); }
  PacketPlan(const PacketPlan&) = delete;
  PacketPlan& operator=(const PacketPlan&) = delete;

  void clear();
  // With the candidate as the first packet.
  void start();
  // The next one that has not been performed.
  bool finished() const { return done_ == packets_.size(); }
  PlannedPacket& next() { return packets_[done_]; }
  PlannedPacket& take_next() { return packets_[done_++]; }

  // Runs of others on the path of what is about to start end now.
  void clear_path(base::Ps at);
  // Others have taken something of the path beyond `at`: a run would not get far.
  bool contended(base::Ps at) const;

  // Takes further packets into the burst.
  void extend_burst(const PacketSource& source, base::Ps at);
  // Reserves the path for all packets at once.
  void place_burst(QueuePair& queue, base::Ps at);

  // Takes further packets into the run, up to `limit`.
  void place_run(const PacketSource& source, base::Ps at, size_t limit);
  bool claimed() const { return claimed_; }
  // Reserves what has started before `other`, gives up the claims and the rest; true if there was a
  // rest.
  bool yield_to(const EventKey& other, QueuePair& queue);
  // The whole run is over.
  void reserve_claimed();

  // It ends at `at`, because somebody outside says so.
  void end_next(base::Ps at, QueuePair& queue);

 private:
  struct LocalState {
    BandwidthResource* resource;
    BandwidthResource::State state;
  };

  void charge(const Charges& charges);
  size_t first_charge(size_t packet) const { return packet == 0 ? 0 : charged_[packet - 1]; }
  bool extend_run(const PacketSource& source, const Behind& behind, base::Ps at);
  void place(PlannedPacket& planned, QueuePair& queue, base::Ps at, base::Ps end) const;
  BandwidthResource::State& local_state(BandwidthResource& resource);
  void claim(bool set);
  void reserve();

  DmaContext& context_;
  PacketList& packets_;
  Run& claimer_;
  uint32_t component_;
  bool claimed_ = false;         // reservations are not made yet, resources are claimed
  size_t done_ = 0;              // packets whose effect has been performed
  base::Ps barrier_before_ = 0;  // of the queue, when the run was planned
  // Of a run: all charges, and how many of them are those of the packets up to each.
  std::vector<Charge> charges_;
  std::vector<size_t> charged_;
  std::vector<LocalState> local_;
};

}  // namespace hw

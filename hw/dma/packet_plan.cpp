#include "hw/dma/packet_plan.h"

#include <algorithm>
#include <utility>

namespace hw {

namespace {
// What stands behind such a packet must be looked at when it is over.
bool ends_plan(const Packet& packet) {
  return packet.signal || packet.reads_register || packet.outward;
}
}  // namespace

void PacketPlan::clear() {
  claim(false);
  packets_.clear();
  done_ = 0;
}

void PacketPlan::start() {
  packets_.take_candidate();
  std::swap(context_.burst, context_.charges);
}

void PacketPlan::clear_path(base::Ps at) {
  for (const Charge& c : context_.burst) {
    if (Run* run = c.resource->run()) run->yield_to({at, component_, Phase::kStart});
  }
}

bool PacketPlan::contended(base::Ps at) const {
  return std::any_of(context_.burst.begin(), context_.burst.end(),
                     [at](const Charge& c) { return c.resource->state().end > at; });
}

// Times of a packet, given when the last resource of its path is through with it.
void PacketPlan::place(PlannedPacket& planned, QueuePair& queue, base::Ps at, base::Ps end) const {
  const TimingParams& timing = context_.timing;
  const Packet& packet = planned.packet;
  planned.start = at;
  // Writes behind a barrier wait for its acknowledgement; signals do so by their own latency.
  planned.end = std::max(end, at + 1);
  if (!packet.signal) planned.end = std::max(planned.end, queue.barrier_until);
  planned.visible = std::max(planned.end + packet.read_latency + timing.dma_first_byte +
                                 timing.dma_write_ack + packet.write_latency,
                             queue.visible_at);
  queue.visible_at = planned.visible;
  if (packet.write_barrier) queue.barrier_until = planned.visible;
}

void PacketPlan::end_next(base::Ps at, QueuePair& queue) {
  PlannedPacket& planned = next();
  planned.end = at;
  planned.visible = std::max(planned.visible, at);
  // No later packet begins before this one has ended: its barrier stands as it was placed.
  queue.visible_at = std::max(queue.visible_at, planned.visible);
}

void PacketPlan::extend_burst(const PacketSource& source, base::Ps at) {
  Behind behind;
  behind.joins = true;
  while (!ends_plan(packets_.back().packet)) {
    behind.add(packets_.back().packet);
    if (source.assemble(behind, at) != Assembly::kPacket) break;
    packets_.take_candidate();
    context_.burst.add(context_.charges);
  }
  if (packets_.size() > 1) clear_path(at);
}

void PacketPlan::place_burst(QueuePair& queue, base::Ps at) {
  base::Ps end = 0;
  for (const Charge& c : context_.burst) {
    end = std::max(end, c.resource->commit(at, c.bytes, c.extra, component_));
    c.resource->count_signals(c.signals);
  }
  base::Ps work = 0;
  for (const PlannedPacket& p : packets_) work += p.packet.work;
  base::Ps done = 0;
  base::Ps begin = at;
  for (PlannedPacket& p : packets_) {
    done += p.packet.work;
    const auto part = static_cast<unsigned __int128>(end - at) * done;
    place(p, queue, begin, done == work ? end : at + static_cast<base::Ps>(part / work));
    begin = p.end;
  }
}

void PacketPlan::place_run(const PacketSource& source, base::Ps at, size_t limit) {
  barrier_before_ = source.queue.barrier_until;
  local_.clear();
  charges_.clear();
  charged_.clear();
  charge(context_.burst);
  Behind behind;
  for (base::Ps t = at;;) {
    PlannedPacket& planned = packets_.back();
    base::Ps end = 0;
    for (size_t i = first_charge(packets_.size() - 1); i < charges_.size(); ++i) {
      const Charge& c = charges_[i];
      end = std::max(end, c.resource->advance(local_state(*c.resource), t, c.bytes, c.extra));
    }
    place(planned, source.queue, t, end);
    t = planned.end;
    if (ends_plan(planned.packet) || packets_.size() == limit) break;
    behind.add(planned.packet);
    if (!extend_run(source, behind, t)) break;
  }
  if (packets_.size() > 1) {
    claim(true);
  } else {
    reserve();
  }
}

// Takes the next packet into the run, unless its turn comes when the run has ended.
bool PacketPlan::extend_run(const PacketSource& source, const Behind& behind, base::Ps at) {
  if (source.assemble(behind, at) != Assembly::kPacket) return false;
  const Packet& next = packets_.candidate();
  if (next.partial || next.outward) return false;
  for (const Charge& c : context_.charges) {
    if (c.resource->run() != nullptr || local_state(*c.resource).end > at) return false;
  }
  packets_.take_candidate();
  charge(context_.charges);
  return true;
}

// What the last packet of the run occupies.
void PacketPlan::charge(const Charges& charges) {
  charges_.insert(charges_.end(), charges.begin(), charges.end());
  charged_.push_back(charges_.size());
}

BandwidthResource::State& PacketPlan::local_state(BandwidthResource& resource) {
  for (LocalState& l : local_) {
    if (l.resource == &resource) return l.state;
  }
  local_.push_back({&resource, resource.state()});
  return local_.back().state;
}

void PacketPlan::claim(bool set) {
  if (claimed_ == set) return;
  claimed_ = set;
  for (const Charge& c : charges_) c.resource->set_run(set ? &claimer_ : nullptr);
}

// Makes the reservations of all packets that are left, as packet-by-packet execution would.
void PacketPlan::reserve() {
  for (size_t n = 0; n < packets_.size(); ++n) {
    for (size_t i = first_charge(n); i < charged_[n]; ++i) {
      const Charge& c = charges_[i];
      c.resource->commit(packets_[n].start, c.bytes, c.extra, component_);
      c.resource->count_signals(c.signals);
    }
  }
}

void PacketPlan::reserve_claimed() {
  if (!claimed_) return;
  claim(false);
  reserve();
}

bool PacketPlan::yield_to(const EventKey& other, QueuePair& queue) {
  claim(false);
  size_t keep = 1;
  while (keep < packets_.size() &&
         EventKey{packets_[keep].start, component_, Phase::kStart} < other) {
    ++keep;
  }
  const bool rest = keep < packets_.size();
  if (rest) {
    packets_.truncate(keep);
    queue.visible_at = packets_.back().visible;
    queue.barrier_until = barrier_before_;
    for (const PlannedPacket& p : packets_) {
      if (p.packet.write_barrier) queue.barrier_until = p.visible;
    }
  }
  reserve();
  return rest;
}

}  // namespace hw

#include "hw/dma/packet_plan.h"

#include <algorithm>

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
  buffers_.clear();
  scales_.clear();
  charges_.clear();
  done_ = 0;
}

PlannedPacket& PacketPlan::add(const Candidate& candidate) {
  PlannedPacket& added = packets_.extend();
  added.packet = candidate.packet;
  added.start = added.end = added.visible = 0;
  added.first_buffer = static_cast<uint32_t>(buffers_.size());
  added.scales = static_cast<uint32_t>(scales_.size());
  added.first_charge = added.charges = 0;
  buffers_.append(candidate.buffers.data(), candidate.buffers.size());
  if (candidate.packet.scaled()) scales_.push_back(candidate.scales);
  return added;
}

// The packet, with charges of its own.
void PacketPlan::append(const Candidate& candidate) {
  PlannedPacket& added = add(candidate);
  added.first_charge = static_cast<uint32_t>(charges_.size());
  added.charges = static_cast<uint32_t>(candidate.charges.size());
  charges_.append(candidate.charges.begin(), candidate.charges.size());
}

// The packet, on top of what the ones before charge: each resource is reserved once.
void PacketPlan::join(const Candidate& candidate) {
  add(candidate);
  const size_t before = charges_.size();
  for (size_t i = 0; i < candidate.charges.size(); ++i) {
    const Charge& c = candidate.charges[i];
    // Packets of a burst mostly take the same path.
    size_t same = i;
    if (same >= before || charges_[same].resource != c.resource) {
      for (same = 0; same < before && charges_[same].resource != c.resource;) ++same;
    }
    if (same == before) {
      charges_.push_back(c);
      continue;
    }
    charges_[same].bytes += c.bytes;
    charges_[same].extra += c.extra;
    charges_[same].signals += c.signals;
  }
}

void PacketPlan::clear_path(base::Ps at) {
  for (const Charge& c : charges_) {
    if (Run* run = c.resource->run()) run->yield_to({at, component_, Phase::kStart});
  }
}

bool PacketPlan::contended(base::Ps at) const {
  return std::any_of(charges_.begin(), charges_.end(),
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
  queue.visible_at = std::max(queue.visible_at, planned.visible);
  if (planned.packet.write_barrier) queue.barrier_until = planned.visible;
}

void PacketPlan::extend_burst(const PacketSource& source, base::Ps at) {
  Behind behind;
  behind.joins = true;
  while (!ends_plan(back().packet)) {
    behind.add(back().packet);
    if (source.assemble(behind, at) != Assembly::kPacket) break;
    join(source.candidate());
  }
  if (size() > 1) clear_path(at);
}

void PacketPlan::place_burst(QueuePair& queue, base::Ps at) {
  base::Ps end = 0;
  for (const Charge& c : charges_) {
    end = std::max(end, c.resource->commit(at, c.bytes, c.extra, component_));
    c.resource->count_signals(c.signals);
  }
  uint64_t bytes = 0;
  for (const PlannedPacket& p : packets_) bytes += p.packet.bytes;
  uint64_t done = 0;
  base::Ps begin = at;
  for (PlannedPacket& p : packets_) {
    done += p.packet.bytes;
    const auto part = static_cast<unsigned __int128>(end - at) * done;
    place(p, queue, begin, done == bytes ? end : at + static_cast<base::Ps>(part / bytes));
    begin = p.end;
  }
}

void PacketPlan::place_run(const PacketSource& source, base::Ps at, size_t limit) {
  barrier_before_ = source.queue.barrier_until;
  local_.clear();
  Behind behind;
  for (base::Ps t = at;;) {
    PlannedPacket& planned = back();
    base::Ps end = 0;
    for (uint32_t i = 0; i < planned.charges; ++i) {
      const Charge& c = charges_[planned.first_charge + i];
      end = std::max(end, c.resource->advance(local_state(*c.resource), t, c.bytes, c.extra));
    }
    place(planned, source.queue, t, end);
    t = planned.end;
    if (ends_plan(planned.packet) || size() == limit) break;
    behind.add(planned.packet);
    if (!extend_run(source, behind, t)) break;
  }
  if (size() > 1) {
    claim(true);
  } else {
    reserve();
  }
}

// Takes the next packet into the run, unless its turn comes when the run has ended.
bool PacketPlan::extend_run(const PacketSource& source, const Behind& behind, base::Ps at) {
  if (source.assemble(behind, at) != Assembly::kPacket) return false;
  const Candidate& next = source.candidate();
  if (next.packet.partial || next.packet.outward) return false;
  for (const Charge& c : next.charges) {
    if (c.resource->run() != nullptr || local_state(*c.resource).end > at) return false;
  }
  append(next);
  return true;
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
  for (const PlannedPacket& p : packets_) {
    for (uint32_t i = 0; i < p.charges; ++i) {
      const Charge& c = charges_[p.first_charge + i];
      c.resource->commit(p.start, c.bytes, c.extra, component_);
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
  while (keep < size() && EventKey{packets_[keep].start, component_, Phase::kStart} < other) {
    ++keep;
  }
  const bool rest = keep < size();
  if (rest) {
    packets_.truncate(keep);
    queue.visible_at = back().visible;
    queue.barrier_until = barrier_before_;
    for (const PlannedPacket& p : packets_) {
      if (p.packet.write_barrier) queue.barrier_until = p.visible;
    }
  }
  reserve();
  return rest;
}

}  // namespace hw

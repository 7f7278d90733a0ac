// Scheduling of the UDMA engine: arbitration, runs, completion, errors.
#include "hw/dma/udma_engine.h"

#include <algorithm>

namespace hw {

namespace udma = contract::udma;

namespace {
constexpr uint32_t kComponentShift = 16;  // component id: chip, then engine
constexpr size_t kMaxRun = 256;
constexpr uint32_t kStreakPerPacket = 16;  // uncontended packets that earn one more packet per run
constexpr uint32_t kMaxStreak = kMaxRun * kStreakPerPacket;
// Erroneous packets that the engine drops before it fetches again: what prefetch may hold.
constexpr uint32_t kMaxDropped = 128;
}  // namespace

void UdmaEngine::PlannedRun::clear() {
  packets.clear();
  buffers.clear();
  headers.clear();
  charges.clear();
  done = 0;
  claimed = false;
}

UdmaEngine::UdmaEngine(DmaContext& context, uint32_t index)
    : RegBlock(context.log, context.fabric.address_map().gen),
      context_(context),
      index_(index),
      component_(context.fabric.chip() << kComponentShift | index),
      domain_(context.fabric.domain_of_engine(index)),
      resource_(context.fabric.name() + ".dma" + std::to_string(index), context.timing.dma_engine),
      mover_(context.fabric) {}

UdmaEngine::~UdmaEngine() {
  claim(false);
}

void UdmaEngine::reset() {
  settle(context_.events.now());
  context_.events.cancel(start_event_);
  start_event_ = 0;
  running_ = false;
  run_.clear();
  for (Deferred& d : deferred_) context_.events.cancel(d.event);
  deferred_.clear();
  deferred_free_.clear();
  deferred_pending_ = 0;
  reset_registers();
  if (queues_ != nullptr) {
    for (uint32_t q = 0; q < kQueues; ++q) {
      for (Half h : {kM2s, kS2m}) {
        reset_half(q, h);
        queues_[q].half[h].base = 0;
        queues_[q].half[h].length = 0;
        queues_[q].half[h].ring = nullptr;
      }
    }
  }
  active_ = unanswered_ = summary_ = 0;
  last_queue_ = kQueues - 1;
  state_[kM2s] = state_[kS2m] = State::kNormal;
}

void UdmaEngine::look_again() {
  if (unanswered_ == 0) return;
  unanswered_ = 0;
  kick(context_.events.now() + 1);
}

void UdmaEngine::on_event(const EventKey& key, uint32_t tag, uint64_t argument) {
  switch (tag) {
    case kTagReady:
      descriptors_arrive(key, argument);
      return;
    case kTagWake:
      if (running_ && run_.claimed) yield_to(key);
      kick(key.time);
      return;
    case kTagStart:
      start_event_ = 0;
      start(key.time);
      return;
    case kTagEffect:
      effect(argument);
      return;
    default:
      return;
  }
}

void UdmaEngine::descriptors_arrive(const EventKey& key, uint64_t argument) {
  const auto q = static_cast<uint32_t>(argument & 15);
  const auto h = static_cast<Half>((argument >> 4) & 1);
  const uint32_t n = static_cast<uint32_t>(argument >> 8) & 0xFF'FFFF;
  HalfQueue& half = queue(q).half[h];
  if (half.generation != static_cast<uint32_t>(argument >> 32)) return;
  if (aborted(h)) {  // fetching has stopped; again after recovery
    half.requested -= n;
    return;
  }
  half.visible += n;
  if (queues_[q].half[kM2s].visible != 0) active_ |= 1u << q;
  if (running_ && run_.claimed && run_.packets.front().queue != q) yield_to(key);
  kick(key.time);
}

// Arbitrates at `at`, unless a packet is being executed or an earlier arbitration is due.
void UdmaEngine::kick(base::Ps at) {
  if (running_ || start_event_ != 0 || !normal() || active_ == 0) return;
  start_event_ = context_.events.schedule(key(at, Phase::kStart), *this, kTagStart);
}

void UdmaEngine::start(base::Ps at) {
  finish(at);
  run_.clear();
  running_ = false;
  if (!normal()) return;  // disabled, or an error of the run just finished
  uint32_t dropped = 0;
  while (arbitrate(at) == Assembly::kPacket) {
    if (run_.packets.front().errors[kM2s] != 0 || run_.packets.front().errors[kS2m] != 0) {
      const Packet packet = run_.packets.front();
      raise(kM2s, packet.errors[kM2s]);
      raise(kS2m, packet.errors[kS2m]);
      if (!normal()) return;
      drop_erroneous(packet);
      run_.clear();
      // A ring full of them must not stop the time of everybody else.
      if (++dropped == kMaxDropped) {
        const base::Ps pause = std::max<base::Ps>(context_.timing.dma_fetch, 1);
        start_event_ = context_.events.schedule(key(at + pause, Phase::kStart), *this, kTagStart);
        return;
      }
      continue;
    }
    plan(at);
    return;
  }
}

// A packet with a masked error does nothing but consume its descriptors. The RX descriptors of a
// packet that failed before they were counted stay.
void UdmaEngine::drop_erroneous(const Packet& packet) {
  Queue& q = queues_[packet.queue];
  const uint32_t n[2] = {packet.tx_descriptors, packet.rx_descriptors};
  for (Half h : {kM2s, kS2m}) {
    note(h, packet.noted[h]);
    HalfQueue& half = q.half[h];
    half.current = half.current.plus(n[h], half.length);
    half.visible -= n[h];
    half.requested -= n[h];
    half.pending -= n[h];
    context_.counters.descriptors += n[h];
  }
  q.sent = 0;
  if (q.half[kM2s].visible == 0) active_ &= ~(1u << packet.queue);
}

// Leaves the next packet in the (empty) run: round robin, on v4 within the highest class.
UdmaEngine::Assembly UdmaEngine::arbitrate(base::Ps at) {
  if (!stream_on()) return Assembly::kNone;
  const bool classes = context_.fabric.address_map().gen == contract::Gen::kV4;
  const auto class_of = [this](uint32_t q) {
    return udma::kM2sQCfgQos.get(value(udma::kM2sQ + udma::kM2sQCfg, q));
  };
  uint32_t candidates = active_ & ~unanswered_;
  while (candidates != 0) {
    uint32_t best = kQueues;
    for (uint32_t i = 1; i <= kQueues; ++i) {
      const uint32_t q = (last_queue_ + i) % kQueues;
      if ((candidates >> q & 1) == 0) continue;
      if (best != kQueues && (!classes || class_of(q) <= class_of(best))) continue;
      best = q;
      if (!classes) break;
    }
    candidates &= ~(1u << best);
    const Assembly result = assemble(best, 0, 0, at, queues_[best].visible_at);
    queues_[best].dmb_waits = result == Assembly::kStalled;
    if (result == Assembly::kStalled) {
      wake_stalled(best);
    } else if (result != Assembly::kNone) {
      last_queue_ = best;
      return Assembly::kPacket;
    }
  }
  return Assembly::kNone;
}

// A queue whose next packet waits for the acknowledgement of earlier writes is looked at again
// then.
void UdmaEngine::wake_stalled(uint32_t q) {
  Queue& queue = queues_[q];
  if (queue.wake_at == queue.visible_at) return;
  queue.wake_at = queue.visible_at;
  context_.events.schedule(key(queue.wake_at, Phase::kReady), *this, kTagWake);
}

bool UdmaEngine::other_eligible(uint32_t q, base::Ps at) {
  for (uint32_t other = active_ & ~unanswered_ & ~(1u << q); other != 0; other &= other - 1) {
    const auto o = static_cast<uint32_t>(__builtin_ctz(other));
    const size_t packets = run_.packets.size();
    const size_t buffers = run_.buffers.size();
    const size_t headers = run_.headers.size();
    const size_t charges = run_.charges.size();
    const Assembly result = assemble(o, 0, 0, at, queues_[o].visible_at);
    run_.packets.resize(packets);
    run_.buffers.resize(buffers);
    run_.headers.resize(headers);
    run_.charges.resize(charges);
    if (result == Assembly::kStalled) wake_stalled(o);
    if (result != Assembly::kNone && result != Assembly::kStalled) return true;
  }
  return false;
}

size_t UdmaEngine::run_limit() const {
  if (!context_.coalesce || traced()) return 1;
  return std::clamp<size_t>(streak_ / kStreakPerPacket, 1, kMaxRun);
}

// Times of a packet, given when the last resource of its path is through with it.
void UdmaEngine::place(Packet& packet, base::Ps at, base::Ps end) {
  Queue& q = queues_[packet.queue];
  const TimingParams& timing = context_.timing;
  packet.start = at;
  // Writes behind a barrier wait for its acknowledgement; signals do so by their own latency.
  packet.end = std::max(end, at + 1);
  if (!packet.signal) packet.end = std::max(packet.end, q.barrier_until);
  packet.visible = std::max(packet.end + packet.read_latency + timing.dma_first_byte +
                                timing.dma_write_ack + packet.write_latency,
                            q.visible_at);
  q.visible_at = packet.visible;
  if (packet.write_barrier) q.barrier_until = packet.visible;
}

// The first packet starts now. While nobody else uses its path, further packets of the queue are
// taken into the run; their reservations are made when the run ends or has to yield.
void UdmaEngine::plan(base::Ps at) {
  running_ = true;
  const EventKey now = key(at, Phase::kStart);
  const uint32_t q = run_.packets.front().queue;
  for (const Charge& c : run_.charges) {
    if (c.resource->run() != nullptr) c.resource->run()->yield_to(now);
  }
  size_t limit = run_limit();
  if (run_.packets.front().partial || (limit > 1 && other_eligible(q, at))) limit = 1;
  if (limit == 1) {
    Packet& packet = run_.packets.front();
    base::Ps end = 0;
    for (uint32_t i = 0; i < packet.charges; ++i) {
      const Charge& c = run_.charges[packet.first_charge + i];
      end = std::max(end, c.resource->commit(at, c.bytes, c.extra));
    }
    place(packet, at, end);
    streak_ = std::min(streak_ + 1, kMaxStreak);
  } else {
    run_.barrier_before = queues_[q].barrier_until;
    plan_run(at, q, limit);
  }
  start_event_ =
      context_.events.schedule(key(run_.packets.back().end, Phase::kStart), *this, kTagStart);
}

void UdmaEngine::plan_run(base::Ps at, uint32_t q, size_t limit) {
  local_.clear();
  uint32_t tx = 0;
  uint32_t rx = 0;
  for (base::Ps t = at;;) {
    Packet& packet = run_.packets.back();
    base::Ps end = 0;
    for (uint32_t i = 0; i < packet.charges; ++i) {
      const Charge& c = run_.charges[packet.first_charge + i];
      end = std::max(end, BandwidthResource::advance(local_state(*c.resource), c.resource->rate(),
                                                     t, c.bytes, c.extra));
    }
    place(packet, t, end);
    t = packet.end;
    if (packet.signal || packet.reads_register || run_.packets.size() == limit) break;
    tx += packet.tx_descriptors;
    rx += packet.rx_descriptors;
    const size_t packets = run_.packets.size();
    const Assembly next = assemble(q, tx, rx, t, queues_[q].visible_at);
    if (run_.packets.size() == packets) break;
    const Packet& added = run_.packets.back();
    bool alone = next == Assembly::kPacket && added.errors[kM2s] == 0 && added.errors[kS2m] == 0 &&
                 !added.partial;
    for (uint32_t i = 0; alone && i < added.charges; ++i) {
      alone = run_.charges[added.first_charge + i].resource->run() == nullptr;
    }
    if (!alone) {  // its turn comes when the run has ended
      run_.charges.resize(next == Assembly::kPacket ? added.first_charge : run_.charges.size());
      run_.packets.pop_back();
      break;
    }
  }
  if (run_.packets.size() > 1) {
    claim(true);
  } else {
    reserve_planned();
  }
  streak_ =
      std::min(streak_ + kStreakPerPacket * static_cast<uint32_t>(run_.packets.size()), kMaxStreak);
}

BandwidthResource::State& UdmaEngine::local_state(BandwidthResource& resource) {
  for (LocalState& l : local_) {
    if (l.resource == &resource) return l.state;
  }
  local_.push_back({&resource, resource.state()});
  return local_.back().state;
}

void UdmaEngine::claim(bool set) {
  if (run_.claimed == set) return;
  run_.claimed = set;
  for (const Charge& c : run_.charges) c.resource->set_run(set ? this : nullptr);
}

// Makes the reservations of all packets that are left in the run, as packet-by-packet execution
// would.
void UdmaEngine::reserve_planned() {
  for (Packet& packet : run_.packets) {
    for (uint32_t i = 0; i < packet.charges; ++i) {
      const Charge& c = run_.charges[packet.first_charge + i];
      c.resource->commit(packet.start, c.bytes, c.extra);
    }
  }
}

void UdmaEngine::yield_to(const EventKey& other) {
  if (!run_.claimed) return;
  claim(false);
  size_t keep = 1;
  while (keep < run_.packets.size() && key(run_.packets[keep].start, Phase::kStart) < other) {
    ++keep;
  }
  if (keep < run_.packets.size()) {
    run_.packets.resize(keep);
    Queue& q = queues_[run_.packets.front().queue];
    q.visible_at = run_.packets.back().visible;
    q.barrier_until = run_.barrier_before;
    for (const Packet& p : run_.packets) {
      if (p.write_barrier) q.barrier_until = p.visible;
    }
    context_.events.cancel(start_event_);
    start_event_ =
        context_.events.schedule(key(run_.packets.back().end, Phase::kStart), *this, kTagStart);
  }
  streak_ = 0;
  reserve_planned();
}

// Brings everything that software can see up to `now`: packets that have ended are performed.
void UdmaEngine::settle(base::Ps now) {
  if (!running_ || completing_) return;
  yield_to(key(now, Phase::kStart));
  finish(now);
}

// Performs the packets that end by `until`.
void UdmaEngine::finish(base::Ps until) {
  if (run_.claimed) {
    claim(false);
    reserve_planned();
  }
  while (run_.done < run_.packets.size() && run_.packets[run_.done].end <= until) {
    completing_ = true;
    complete(run_.packets[run_.done++]);
    completing_ = false;
    if (!running_) return;  // aborted
  }
}

bool UdmaEngine::elided(const Packet& packet) const {
  return context_.timing_only && packet.bytes / packet.copies > context_.real_bytes &&
         index_ < context_.fabric.address_map().compute_engines();
}

bool UdmaEngine::reads_elided(const Buffer* buffers, const Packet& packet) const {
  for (uint32_t i = 0; i < packet.sources; ++i) {
    uint64_t offset = 0;
    Memory* memory = context_.fabric.plain(buffers[i].address, &offset);
    if (memory != nullptr && memory->elided().overlaps(offset, buffers[i].length)) return true;
  }
  return false;
}

// Timing-only: bytes that were not computed stay known as such wherever they are copied; where they
// would leave device memory (to the host, into a register) somebody reads them.
void UdmaEngine::track_elision(const Buffer* buffers, const Packet& packet, bool elided) {
  const bool stale = elided || reads_elided(buffers, packet);
  bool read = false;
  for (uint32_t i = packet.sources; i < packet.sources + packet.destinations; ++i) {
    uint64_t offset = 0;
    Memory* memory = context_.fabric.plain(buffers[i].address, &offset);
    if (memory == nullptr) {
      read = read || (stale && !elided);
    } else if (stale) {
      memory->elided().add(offset, buffers[i].length);
    } else {
      memory->elided().remove(offset, buffers[i].length);
    }
  }
  context_.counters.elided_reads += read ? 1 : 0;
}

void UdmaEngine::count(const Packet& packet) {
  Counters& c = context_.counters;
  c.packets += packet.partial ? 0 : 1;
  c.compute_packets += packet.compute ? 1 : 0;
  c.descriptors += uint64_t{packet.tx_descriptors} + packet.rx_descriptors;
  c.bytes += packet.bytes;
  if (context_.tracer == nullptr) return;
  uint32_t& track = queues_[packet.queue].track;
  if (track == ~0u) {
    track = context_.tracer->track(name() + ".q" + std::to_string(packet.queue));
  }
  context_.tracer->span(track, packet.start, packet.end,
                        packet.sources > 1 && packet.compute ? "reduce"
                        : packet.signal                      ? "signal"
                                                             : "copy",
                        packet.bytes);
}

void UdmaEngine::complete(Packet& packet) {
  Queue& q = queues_[packet.queue];
  const RingPointer first = q.half[kM2s].current;
  const uint32_t n[2] = {packet.tx_descriptors, packet.rx_descriptors};
  for (Half h : {kM2s, kS2m}) {
    HalfQueue& half = q.half[h];
    if (half.generation != packet.generation[h]) continue;
    half.current = half.current.plus(n[h], half.length);
    half.visible -= n[h];
    half.requested -= n[h];
    half.pending -= n[h];
  }
  if (q.half[kM2s].visible == 0) active_ &= ~(1u << packet.queue);
  note(kM2s, packet.noted[kM2s]);
  note(kS2m, packet.noted[kS2m]);
  const uint32_t whole = q.sent + packet.bytes;
  if (q.half[kM2s].generation == packet.generation[kM2s]) {
    q.sent = packet.partial ? whole : 0;
    q.dmb_released = false;
  }
  count(packet);
  if (traced() && !packet.partial) post_trace(packet, first, whole);
  if (packet.signal) {
    defer(packet);
    return;
  }
  const Buffer* buffers = run_.buffers.data() + packet.first_buffer;
  if (elided(packet)) {
    context_.counters.elided_bytes += packet.bytes;
    track_elision(buffers, packet, true);
    return;
  }
  if (context_.timing_only) track_elision(buffers, packet, false);
  const Mover::Outcome outcome =
      packet.compute
          ? mover_.compute(buffers, packet, run_.headers[packet.header], context_.timing_only)
          : mover_.copy(buffers, packet, context_.timing_only);
  raise(kM2s, outcome.m2s);
  raise(kS2m, outcome.s2m);
}

// A signal's source is read now, at its end; its writes take effect when it is acknowledged.
void UdmaEngine::defer(const Packet& packet) {
  uint32_t slot;
  if (deferred_free_.empty()) {
    slot = static_cast<uint32_t>(deferred_.size());
    deferred_.emplace_back();
  } else {
    slot = deferred_free_.back();
    deferred_free_.pop_back();
  }
  Deferred& d = deferred_[slot];
  const Buffer* buffers = run_.buffers.data() + packet.first_buffer;
  d.destinations.assign(buffers + packet.sources, buffers + packet.sources + packet.destinations);
  d.data.resize(packet.bytes);
  if (context_.timing_only && reads_elided(buffers, packet)) ++context_.counters.elided_reads;
  if (!mover_.gather(buffers, packet, d.data.data())) {
    deferred_free_.push_back(slot);
    raise(kM2s, m2s_cause::kDataRead);
    return;
  }
  ++deferred_pending_;
  d.event = context_.events.schedule(key(packet.visible, Phase::kEffect), *this, kTagEffect, slot);
}

void UdmaEngine::effect(uint64_t slot) {
  // A write may come back to this engine (a doorbell, a reset): nothing in deferred_ is referred
  // to.
  Deferred d;
  std::swap(d, deferred_[slot]);
  deferred_free_.push_back(static_cast<uint32_t>(slot));
  --deferred_pending_;
  size_t done = 0;
  for (const Buffer& b : d.destinations) {
    const bool ok = context_.fabric.write(b.address, {d.data.data() + done, b.length});
    if (ok && context_.fabric.is_register(b.address)) ++context_.counters.register_writes;
    if (!ok) raise(kS2m, s2m_cause::kDataWrite);
    done += b.length;
  }
}

// Sets cause bits; an error that is not masked for it aborts the engine.
void UdmaEngine::raise(Half h, uint32_t cause) {
  if (cause == 0) return;
  ++context_.counters.dma_errors;
  note(h, cause);
  if (!abort_masked(h, cause)) abort();
}

void UdmaEngine::note(Half h, uint32_t cause) {
  if (cause == 0) return;
  set_value(udma::kSecondaryIrq, value(udma::kSecondaryIrq, h) | cause, h);
  summarise();
}

// Stops fetching and moving data; what is in flight is lost, posted signals are not.
void UdmaEngine::abort(bool m2s, bool s2m) {
  if (running_) yield_to(key(context_.events.now(), Phase::kStart));
  context_.events.cancel(start_event_);
  start_event_ = 0;
  if (m2s) state_[kM2s] = State::kAborted;
  if (s2m) state_[kS2m] = State::kAborted;
  running_ = false;
  run_.clear();
}

}  // namespace hw

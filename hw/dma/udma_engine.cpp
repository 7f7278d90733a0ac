// Scheduling of the UDMA engine: arbitration, runs, completion, errors.
#include "hw/dma/udma_engine.h"

#include <algorithm>
#include <stdexcept>

#include "hw/component_ids.h"

namespace hw {

namespace udma = contract::udma;

namespace {
constexpr size_t kMaxRun = 256;
constexpr uint32_t kStreakPerPacket = 16;  // uncontended packets that earn one more packet per run
constexpr uint32_t kMaxStreak = kMaxRun * kStreakPerPacket;
// Erroneous packets that the engine drops before it fetches again: what prefetch may hold.
constexpr uint32_t kMaxDropped = 128;

constexpr size_t kLine = 64;
constexpr size_t kTxLines = 4;  // descriptors of a burst
constexpr size_t kRxLines = 3;

// Inlined by force: the compiler drops calls of a function that only fetches ahead.
[[gnu::always_inline]] inline void fetch_lines(const void* from, size_t bytes) {
  if (from == nullptr) return;
  for (size_t at = 0; at < bytes; at += kLine) {
    __builtin_prefetch(static_cast<const uint8_t*>(from) + at);
  }
}
}  // namespace

void UdmaEngine::PlannedRun::clear() {
  packets.clear();
  buffers.clear();
  scales.clear();
  charges.clear();
  done = 0;
  claimed = false;
}

UdmaEngine::UdmaEngine(DmaContext& context, uint32_t index)
    : RegBlock(context.log, context.fabric.address_map().gen),
      context_(context),
      index_(index),
      component_(component::id(context.fabric.chip(), component::kDmaEngines, index)),
      domain_(context.fabric.domain_of_engine(index)),
      resource_(context.fabric.name() + ".dma" + std::to_string(index), context.timing.dma_engine),
      mover_(context.fabric) {
  if (context.policy.arbiter) arbiter_ = context.policy.arbiter();
}

UdmaEngine::~UdmaEngine() {
  claim(false);
}

void UdmaEngine::reset() {
  settle(context_.events.now());
  context_.events.cancel(start_event_);
  start_event_ = 0;
  running_ = false;
  run_.clear();
  outward_.reset();
  drop_deferred();
  arrivals_.clear();
  arrived_ = 0;
  reset_registers();
  config_.known = false;
  noted_[kM2s] = noted_[kS2m] = 0;
  for (uint32_t q = 0; q < kQueues; ++q) {
    if (queues_[q] == nullptr) continue;
    for (Half h : {kM2s, kS2m}) {
      reset_half(q, h);
      queues_[q]->half[h].base = 0;
      queues_[q]->half[h].length = 0;
      queues_[q]->half[h].ring = nullptr;
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
    case kTagAnswered:
      if (outward_ != nullptr && argument == outward_number_) answered(key.time);
      return;
    default:
      return;
  }
}

void UdmaEngine::expect(uint32_t tag, uint64_t argument) {
  if (tag == kTagEffect) return __builtin_prefetch(&context_.deferred[argument]);
  fetch_lines(&config_, sizeof config_);
  fetch_lines(&resource_, 2 * kLine);
  fetch_lines(&run_, sizeof run_);
  fetch_lines(ahead_[0], sizeof(Queue));
  fetch_lines(ahead_[1], kTxLines * kLine);
  fetch_lines(ahead_[2], kRxLines * kLine);
}

// Arbitrates at `at`, unless a packet is being executed or an earlier arbitration is due.
void UdmaEngine::kick(base::Ps at) {
  if (running_ || !normal() || active_ == 0) return;
  if (start_event_ != 0) {
    if (!awaits_) return;
    context_.events.cancel(start_event_);
  }
  awaits_ = false;
  start_event_ = context_.events.schedule(key(at, Phase::kStart), *this, kTagStart);
}

// An idle engine looks again when the next descriptors arrive.
void UdmaEngine::await_arrival() {
  if (running_ || !normal() || start_event_ != 0 || next_arrival() == EventQueue::kForever) return;
  awaits_ = true;
  start_event_ = context_.events.schedule(key(next_arrival(), Phase::kStart), *this, kTagStart);
}

void UdmaEngine::wake(base::Ps at) {
  context_.events.schedule(key(at, Phase::kReady), *this, kTagWake);
}

void UdmaEngine::start(base::Ps at) {
  arrive(at);
  finish(at);
  if (running_ && outward_ != nullptr) return;
  if (running_ && run_.done < run_.packets.size()) return await_end(run_.packets[run_.done]);
  run_.clear();
  context_.charges.clear();
  running_ = false;
  awaits_ = false;
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
  await_arrival();
}

void UdmaEngine::consume(Queue& queue, Half h, uint32_t n) {
  HalfQueue& half = queue.half[h];
  half.current = half.current.plus(n, half.length);
  half.visible -= n;
  half.requested -= n;
  half.pending -= n;
}

// A packet with a masked error does nothing but consume its descriptors. The RX descriptors of a
// packet that failed before they were counted stay.
void UdmaEngine::drop_erroneous(const Packet& packet) {
  Queue& q = queue(packet.queue);
  const uint32_t n[2] = {packet.tx_descriptors, packet.rx_descriptors};
  for (Half h : {kM2s, kS2m}) {
    note(h, packet.noted[h]);
    consume(q, h, n[h]);
    context_.counters.descriptors += n[h];
  }
  q.sent = 0;
  if (q.half[kM2s].visible == 0) active_ &= ~(1u << packet.queue);
}

// Round robin, within the most urgent class of those that wait: the lowest number; unless somebody
// else's policy says otherwise.
uint32_t UdmaEngine::next_queue(uint32_t candidates) {
  if (arbiter_ != nullptr) {
    const uint32_t q = arbiter_->next(candidates, last_queue_, config_.service_class.data());
    if (q < kQueues && (candidates >> q & 1) != 0) return q;
    throw std::runtime_error(name() + ": the policy for DMA queues chooses queue " +
                             std::to_string(q) + ", which does not wait");
  }
  if (config_.classes) {
    uint32_t best = 0;
    uint32_t urgent = ~0u;
    for (uint32_t left = candidates; left != 0; left &= left - 1) {
      const uint8_t its = config_.service_class[static_cast<uint32_t>(__builtin_ctz(left))];
      if (its < urgent) best = 0;
      urgent = std::min<uint32_t>(urgent, its);
      if (its == urgent) best |= left & -left;
    }
    candidates = best;
  }
  const uint32_t behind = candidates & ~((2u << last_queue_) - 1);
  return static_cast<uint32_t>(__builtin_ctz(behind != 0 ? behind : candidates));
}

// Leaves the next packet in the (empty) run.
UdmaEngine::Assembly UdmaEngine::arbitrate(base::Ps at) {
  if (!config_.known) configure();
  if (!config_.stream_on) return Assembly::kNone;
  uint32_t candidates = active_ & ~unanswered_;
  while (candidates != 0) {
    const uint32_t best = next_queue(candidates);
    candidates &= ~(1u << best);
    const Assembly result = assemble(best, {}, at);
    queue(best).dmb_waits = result == Assembly::kStalled;
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
  Queue& queue = *queues_[q];
  if (queue.wake_at == queue.visible_at) return;
  queue.wake_at = queue.visible_at;
  context_.events.schedule(key(queue.wake_at, Phase::kReady), *this, kTagWake);
}

bool UdmaEngine::other_eligible(uint32_t q, base::Ps at) {
  for (uint32_t other = active_ & ~unanswered_ & ~(1u << q); other != 0; other &= other - 1) {
    const auto o = static_cast<uint32_t>(__builtin_ctz(other));
    const size_t packets = run_.packets.size();
    const size_t buffers = run_.buffers.size();
    const size_t scales = run_.scales.size();
    const Charges::Mark charges = context_.charges.mark();
    const Assembly result = assemble(o, {}, at);
    run_.packets.truncate(packets);
    run_.buffers.truncate(buffers);
    run_.scales.resize(scales);
    context_.charges.back_to(charges);
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
  Queue& q = queue(packet.queue);
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

// The first packet starts now, and others of its queue with it: in a run while nobody else uses
// their path, in a burst otherwise.
void UdmaEngine::plan(base::Ps at) {
  running_ = true;
  const uint32_t q = run_.packets.front().queue;
  make_way(at);
  const bool shared = contended(at);
  const size_t limit = shared ? 1 : run_limit();
  const bool more = (shared || limit > 1) && !run_.packets.front().partial && !others_arrive(q) &&
                    !other_eligible(q, at);
  if (more && !shared) {
    run_.barrier_before = queue(q).barrier_until;
    plan_run(at, q, limit);
  } else {
    if (more) extend_burst(q, at);
    plan_burst(at);
  }
  if (arbiter_ != nullptr) {
    for (const Packet& packet : run_.packets) arbiter_->started(q, packet.bytes);
  }
  // Trace entries appear when their packet ends.
  await_end(traced() ? run_.packets.front() : run_.packets.back());
  look_ahead();
}

void UdmaEngine::await_end(const Packet& packet) {
  start_event_ = context_.events.schedule(key(packet.end, Phase::kStart), *this, kTagStart);
}

// Runs of others on the path end now.
void UdmaEngine::make_way(base::Ps at) {
  for (const Charge& c : context_.charges) {
    if (c.resource->run() != nullptr) c.resource->run()->yield_to(key(at, Phase::kStart));
  }
}

// What a further packet of the queue would read.
void UdmaEngine::look_ahead() {
  const Queue& q = queue(run_.packets.back().queue);
  ahead_[0] = &q;
  uint32_t n[2] = {};
  for (const Packet& packet : run_.packets) {
    n[kM2s] += packet.tx_descriptors;
    n[kS2m] += packet.rx_descriptors;
  }
  for (Half h : {kM2s, kS2m}) {
    const HalfQueue& half = q.half[h];
    if (half.ring == nullptr) continue;
    const uint32_t next = half.current.plus(n[h], half.length).index;
    ahead_[1 + h] = half.ring + next * sizeof(contract::Descriptor);
  }
}

// Others have taken something of the path beyond `at`: a run would not get far.
bool UdmaEngine::contended(base::Ps at) const {
  for (const Charge& c : context_.charges) {
    if (c.resource->state().end > at) return true;
  }
  return false;
}

// Takes further packets of the queue into the burst. They charge what the first one does, so that
// each resource is reserved once.
void UdmaEngine::extend_burst(uint32_t q, base::Ps at) {
  Behind behind;
  behind.joins = true;
  for (;;) {
    const Packet& last = run_.packets.back();
    if (last.signal || last.reads_register || last.outward) break;
    behind.tx += last.tx_descriptors;
    behind.rx += last.rx_descriptors;
    ++behind.packets;
    if (assemble(q, behind, at) != Assembly::kPacket) break;
  }
  if (run_.packets.size() > 1) make_way(at);
}

// Reserves the path for all packets of the run at once. They share its time by their bytes.
void UdmaEngine::plan_burst(base::Ps at) {
  base::Ps end = 0;
  for (const Charge& c : context_.charges) {
    end = std::max(end, c.resource->commit(at, c.bytes, c.extra, component_));
    c.resource->count_signals(c.signals);
  }
  uint64_t bytes = 0;
  for (const Packet& packet : run_.packets) bytes += packet.bytes;
  uint64_t done = 0;
  base::Ps begin = at;
  for (Packet& packet : run_.packets) {
    done += packet.bytes;
    const auto part = static_cast<unsigned __int128>(end - at) * done;
    place(packet, begin, done == bytes ? end : at + static_cast<base::Ps>(part / bytes));
    begin = packet.end;
  }
  streak_ = std::min(streak_ + 1, kMaxStreak);
}

void UdmaEngine::plan_run(base::Ps at, uint32_t q, size_t limit) {
  const Charges& charges = context_.charges;
  local_.clear();
  Behind behind;
  for (base::Ps t = at;;) {
    Packet& packet = run_.packets.back();
    base::Ps end = 0;
    for (uint32_t i = 0; i < packet.charges; ++i) {
      const Charge& c = charges[packet.first_charge + i];
      end = std::max(end, c.resource->advance(local_state(*c.resource), t, c.bytes, c.extra));
    }
    place(packet, t, end);
    t = packet.end;
    if (packet.signal || packet.reads_register || packet.outward) break;
    if (run_.packets.size() == limit) break;
    behind.tx += packet.tx_descriptors;
    behind.rx += packet.rx_descriptors;
    if (!extend_run(q, behind, t)) break;
  }
  run_.charges.assign(charges.begin(), charges.end());
  if (run_.packets.size() > 1) {
    claim(true);
  } else {
    reserve_planned();
  }
  streak_ =
      std::min(streak_ + kStreakPerPacket * static_cast<uint32_t>(run_.packets.size()), kMaxStreak);
}

// Takes the next packet into the run, unless its turn comes when the run has ended.
bool UdmaEngine::extend_run(uint32_t q, const Behind& behind, base::Ps at) {
  const size_t packets = run_.packets.size();
  const Charges::Mark charges = context_.charges.mark();
  const Assembly next = assemble(q, behind, at);
  if (run_.packets.size() == packets) return false;
  const Packet& added = run_.packets.back();
  bool alone = next == Assembly::kPacket && added.errors[kM2s] == 0 && added.errors[kS2m] == 0 &&
               !added.partial && !added.outward;
  for (uint32_t i = 0; alone && i < added.charges; ++i) {
    BandwidthResource& resource = *context_.charges[added.first_charge + i].resource;
    alone = resource.run() == nullptr && local_state(resource).end <= at;
  }
  if (alone) return true;
  context_.charges.back_to(charges);
  run_.packets.pop_back();
  return false;
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
      c.resource->commit(packet.start, c.bytes, c.extra, component_);
      c.resource->count_signals(c.signals);
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
    run_.packets.truncate(keep);
    Queue& q = queue(run_.packets.front().queue);
    q.visible_at = run_.packets.back().visible;
    q.barrier_until = run_.barrier_before;
    for (const Packet& p : run_.packets) {
      if (p.write_barrier) q.barrier_until = p.visible;
    }
    context_.events.cancel(start_event_);
    await_end(run_.packets.back());
  }
  streak_ = 0;
  reserve_planned();
}

// Brings everything that software can see up to `now`: packets that have ended are performed.
void UdmaEngine::settle(base::Ps now) {
  arrive(now);
  if (!running_ || completing_) return;
  yield_to(key(now, Phase::kStart));
  finish(now);
}

void UdmaEngine::settle_for_read(bool debug) {
  const base::Ps now = context_.events.now();
  debug ? arrive(now) : settle(now);
}

// Performs the packets that end by `until`.
void UdmaEngine::finish(base::Ps until) {
  if (run_.claimed) {
    claim(false);
    reserve_planned();
  }
  while (run_.done < run_.packets.size() && run_.packets[run_.done].end <= until) {
    if (run_.packets[run_.done].outward && begin_outward(run_.packets[run_.done])) return;
    completing_ = true;
    complete(run_.packets[run_.done++]);
    completing_ = false;
    if (!running_) return;  // aborted
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
  // Most packets note nothing: what was noted need not be fetched then.
  if (cause == 0 || (cause & ~noted_[h]) == 0) return;
  noted_[h] |= cause;
  set_value(udma::kSecondaryIrq, value(udma::kSecondaryIrq, h) | cause, h);
  summarise();
}

// Stops fetching and moving data; what is in flight is lost, posted signals are not.
void UdmaEngine::abort(bool m2s, bool s2m) {
  arrive(context_.events.now());
  if (running_) yield_to(key(context_.events.now(), Phase::kStart));
  context_.events.cancel(start_event_);
  start_event_ = 0;
  if (m2s) state_[kM2s] = State::kAborted;
  if (s2m) state_[kS2m] = State::kAborted;
  running_ = false;
  run_.clear();
  outward_.reset();
  if (next_arrival() != EventQueue::kForever) wake(arrivals_.back().time);
}

}  // namespace hw

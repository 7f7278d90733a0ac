// Scheduling of the UDMA engine: arbitration, execution, errors.
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
// What every packet touches of a resource, and of the queues.
constexpr size_t kResourceBytes = 128;
constexpr size_t kQueuesBytes = 40;
}  // namespace

UdmaEngine::UdmaEngine(DmaContext& context, uint32_t index)
    : RegBlock(context.log, context.fabric.address_map().gen),
      context_(context),
      component_(component::id(context.fabric.chip(), component::kDmaEngines, index)),
      queues_(context),
      resource_(context.fabric.name() + ".dma" + std::to_string(index), context.timing.dma_engine),
      plan_(context, packets_, component_, *this),
      assembler_(context, resource_, context.fabric.domain_of_engine(index), packets_),
      effects_(context, *this,
               context.timing_only && index < context.fabric.address_map().compute_engines()) {
  if (context.policy.arbiter) arbiter_ = context.policy.arbiter();
  if (context.checker != nullptr) checks_ = std::make_unique<DmaChecks>(*context.checker, name());
}

void UdmaEngine::reset() {
  settle(context_.events.now());
  context_.events.cancel(start_event_);
  start_event_ = 0;
  running_ = false;
  plan_.clear();
  effects_.drop_outward();
  effects_.drop_deferred();
  reset_registers();
  config_.known = false;
  noted_[kM2s] = noted_[kS2m] = 0;
  queues_.reset();
  for (uint32_t q = 0; checks_ != nullptr && q < kQueues; ++q) {
    for (Half h : {kM2s, kS2m}) checks_->reset(q, h);
  }
  unanswered_ = summary_ = 0;
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
      if (running_) yield_to(key);
      kick(key.time);
      return;
    case kTagStart:
      start_event_ = 0;
      start(key.time);
      return;
    case kTagEffect:
      effects_.take_effect(static_cast<uint32_t>(argument));
      return;
    case kTagAnswered:
      if (effects_.answers_to(argument)) answered(key.time);
      return;
    default:
      return;
  }
}

void UdmaEngine::expect(uint32_t tag, uint64_t argument) {
  if (tag == kTagEffect) return __builtin_prefetch(&context_.deferred[argument]);
  fetch_lines(&config_, sizeof config_ + kQueuesBytes);
  fetch_lines(&resource_, kResourceBytes);
  fetch_lines(&packets_, sizeof packets_ + sizeof plan_);
  hints_.fetch();
}

void UdmaEngine::start_at(base::Ps at) {
  start_event_ = context_.events.schedule(key(at, Phase::kStart), *this, kTagStart);
}

// Arbitrates at `at`, unless a packet is being executed or an earlier arbitration is due.
void UdmaEngine::kick(base::Ps at) {
  if (running_ || !normal() || queues_.active() == 0) return;
  if (start_event_ != 0) {
    if (!awaits_) return;
    context_.events.cancel(start_event_);
  }
  awaits_ = false;
  start_at(at);
}

// An idle engine looks again when the next descriptors arrive.
void UdmaEngine::await_arrival() {
  const base::Ps next = queues_.next_arrival();
  if (running_ || !normal() || start_event_ != 0 || next == EventQueue::kForever) return;
  awaits_ = true;
  start_at(next);
}

void UdmaEngine::wake(base::Ps at) {
  context_.events.schedule(key(at, Phase::kReady), *this, kTagWake);
}

void UdmaEngine::start(base::Ps at) {
  arrive(at);
  finish(at);
  if (running_ && effects_.outward()) return;
  if (running_ && !plan_.finished()) return start_at(plan_.next().end);
  plan_.clear();
  running_ = false;
  awaits_ = false;
  if (!normal()) return;  // disabled, or an error of what just finished
  uint32_t dropped = 0;
  while (arbitrate(at)) {
    if (!packets_.candidate().erroneous()) return plan(at);
    const Packet packet = packets_.candidate();
    raise(kM2s, packet.errors[kM2s]);
    raise(kS2m, packet.errors[kS2m]);
    if (!normal()) return;
    drop_erroneous(packet);
    // A ring full of them must not stop the time of everybody else.
    if (++dropped == kMaxDropped) {
      return start_at(at + std::max<base::Ps>(context_.timing.dma_fetch, 1));
    }
  }
  await_arrival();
}

// A packet with a masked error does nothing but consume its descriptors. The RX descriptors of a
// packet that failed before they were counted stay.
void UdmaEngine::drop_erroneous(const Packet& packet) {
  if (checks_ != nullptr) checks_->dropped(packet);
  QueuePair& queue = queues_.at(packet.queue);
  const uint32_t n[2] = {packet.tx_descriptors, packet.rx_descriptors};
  for (Half h : {kM2s, kS2m}) {
    note(h, packet.noted[h]);
    queues_.consume(packet.queue, queue, h, n[h]);
    context_.counters.descriptors += n[h];
  }
  queue.sent = 0;
}

uint32_t UdmaEngine::ask_arbiter(uint32_t candidates) {
  const uint32_t q = arbiter_->next(candidates, last_queue_, config_.service_class.data());
  if (q < kQueues && (candidates >> q & 1) != 0) return q;
  throw std::runtime_error(name() + ": the policy for DMA queues chooses queue " +
                           std::to_string(q) + ", which does not wait");
}

// Round robin, within the most urgent class of those that wait: the lowest number; unless somebody
// else's policy says otherwise.
uint32_t UdmaEngine::next_queue(uint32_t candidates) {
  if (arbiter_ != nullptr) return ask_arbiter(candidates);
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

Assembly UdmaEngine::assemble(uint32_t q, base::Ps at) {
  const Assembly result = assembler_.assemble(queues_.at(q), q, config(), {}, at);
  if (result == Assembly::kUnanswered) unanswered_ |= 1u << q;  // others go on
  if (result == Assembly::kStalled) wake_stalled(q);
  return result;
}

// The next packet becomes the candidate; false if there is none.
bool UdmaEngine::arbitrate(base::Ps at) {
  if (!config().stream_on) return false;
  uint32_t candidates = queues_.active() & ~unanswered_;
  while (candidates != 0) {
    const uint32_t best = next_queue(candidates);
    candidates &= ~(1u << best);
    const Assembly result = assemble(best, at);
    queues_.at(best).dmb_waits = result == Assembly::kStalled;
    if (result != Assembly::kPacket && result != Assembly::kError) continue;
    last_queue_ = best;
    return true;
  }
  return false;
}

// A queue whose next packet waits for the acknowledgement of earlier writes is looked at again
// then.
void UdmaEngine::wake_stalled(uint32_t q) {
  QueuePair& queue = queues_.at(q);
  if (queue.wake_at == queue.visible_at) return;
  queue.wake_at = queue.visible_at;
  wake(queue.wake_at);
}

bool UdmaEngine::other_eligible(uint32_t q, base::Ps at) {
  for (uint32_t other = queues_.active() & ~unanswered_ & ~(1u << q); other != 0;
       other &= other - 1) {
    const Assembly result = assemble(static_cast<uint32_t>(__builtin_ctz(other)), at);
    if (result == Assembly::kPacket || result == Assembly::kError) return true;
  }
  return false;
}

size_t UdmaEngine::run_limit() const {
  if (!context_.coalesce || traced()) return 1;
  return std::clamp<size_t>(streak_ / kStreakPerPacket, 1, kMaxRun);
}

// The candidate starts now, and others of its queue with it: in a run while nobody else uses their
// path, in a burst otherwise.
void UdmaEngine::plan(base::Ps at) {
  running_ = true;
  plan_.start();
  const uint32_t q = packets_[0].packet.queue;
  const bool partial = packets_[0].packet.partial;
  plan_.clear_path(at);
  const bool shared = plan_.contended(at);
  const size_t limit = shared ? 1 : run_limit();
  const bool more =
      (shared || limit > 1) && !partial && !queues_.others_arrive(q) && !other_eligible(q, at);
  const PacketSource source{assembler_, config_, queues_.at(q), q};
  if (more && !shared) {
    plan_.place_run(source, at, limit);
    streak_ += kStreakPerPacket * static_cast<uint32_t>(packets_.size());
  } else {
    if (more) plan_.extend_burst(source, at);
    plan_.place_burst(source.queue, at);
    ++streak_;
  }
  streak_ = std::min(streak_, kMaxStreak);
  uint32_t behind[2] = {};
  for (const PlannedPacket& p : packets_) {
    if (arbiter_ != nullptr) arbiter_->started(q, p.packet.bytes);
    behind[kM2s] += p.packet.tx_descriptors;
    behind[kS2m] += p.packet.rx_descriptors;
  }
  hints_.remember(source.queue, behind);
  // Trace entries appear when their packet ends.
  start_at((traced() ? packets_[0] : packets_.back()).end);
}

void UdmaEngine::yield_to(const EventKey& other) {
  if (!plan_.claimed()) return;
  streak_ = 0;
  if (!plan_.yield_to(other, queues_.at(packets_[0].packet.queue))) return;
  context_.events.cancel(start_event_);
  start_at(packets_.back().end);
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
  plan_.reserve_claimed();
  while (!plan_.finished() && plan_.next().end <= until) {
    if (plan_.next().packet.outward && begin_outward(plan_.next())) return;
    completing_ = true;
    complete(plan_.take_next());
    completing_ = false;
    if (!running_) return;  // aborted
  }
}

// Whether there is still something to wait for.
bool UdmaEngine::begin_outward(const PlannedPacket& planned) {
  return effects_.begin_outward(
      planned.packet, packets_.buffers(planned), packets_.scales(planned), [this](uint32_t number) {
        const base::Ps at = context_.events.now() + 1;
        context_.events.schedule(key(at, Phase::kEffect), *this, kTagAnswered, number);
      });
}

// The packet ends when the last one outside has answered.
void UdmaEngine::answered(base::Ps at) {
  if (effects_.go_on_outward()) return;
  plan_.end_next(at, queues_.at(plan_.next().packet.queue));
  start_at(at);
}

void UdmaEngine::complete(const PlannedPacket& planned) {
  const Packet& packet = planned.packet;
  QueuePair& queue = queues_.at(packet.queue);
  const RingPointer first = queue.half[kM2s].current;
  const uint32_t n[2] = {packet.tx_descriptors, packet.rx_descriptors};
  for (Half h : {kM2s, kS2m}) {
    if (queue.half[h].generation != packet.generation[h]) continue;
    queues_.consume(packet.queue, queue, h, n[h]);
  }
  note(kM2s, packet.noted[kM2s]);
  note(kS2m, packet.noted[kS2m]);
  const uint32_t whole = queue.sent + packet.bytes;
  if (queue.half[kM2s].generation == packet.generation[kM2s]) {
    queue.sent = packet.partial ? whole : 0;
    queue.dmb_released = false;
  }
  const uint64_t flow = count(planned);
  if (traced() && !packet.partial) post_trace(planned, first, whole);
  const Buffer* buffers = packets_.buffers(planned);
  if (checks_ != nullptr) checks_->ended(packet, buffers);
  if (packet.signal) {
    defer(planned, flow);
  } else if (packet.outward) {
    effects_.end_outward(packet, buffers);
  } else {
    effects_.move(packet, buffers, packets_.scales(planned));
  }
}

void UdmaEngine::defer(const PlannedPacket& planned, uint64_t flow) {
  const uint32_t signal = effects_.defer(planned.packet, packets_.buffers(planned), flow);
  if (signal == PacketEffects::kNoSignal) return;
  if (checks_ != nullptr) {
    context_.deferred[signal].release =
        std::make_unique<check::Release>(checks_->signal(planned.packet.queue));
  }
  effects_.expect_at(signal, context_.events.schedule(key(planned.visible, Phase::kEffect), *this,
                                                      kTagEffect, signal));
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
  plan_.clear();
  effects_.drop_outward();
  if (queues_.next_arrival() != EventQueue::kForever) wake(queues_.last_arrival());
}

}  // namespace hw

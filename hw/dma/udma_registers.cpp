// Registers and queue state of the UDMA engine (spec/hw-registers.md 3.2 to 3.4, 3.7, 3.9).
#include <algorithm>

#include "hw/dma/udma_engine.h"

namespace hw {

namespace udma = contract::udma;

namespace {
// Descriptors that prefetch may hold ahead of execution (spec/hw-registers.md 3.6 rule 3).
constexpr uint32_t kPrefetchDepth = 128;
constexpr uint32_t kIndexMask = 0xFF'FFFF;  // 24-bit indices and counts
constexpr uint32_t kPrimaryD = 3;           // summarises the secondary groups (3.9)
constexpr uint32_t kPrimaryDFirstBit = 8;
constexpr uint32_t kLenCfg = 0x010F'FFFF;
// A packet's M2S descriptors are held in the prefetch buffer (spec/hw-registers.md 3.5).
constexpr uint32_t kMaxTxDescriptors = 128;
constexpr uint32_t kChangeNormal = 1;
constexpr uint32_t kChangeDisable = 2;
constexpr uint32_t kChangeAbort = 4;

constexpr uint32_t group_of(Half h) {
  return h == kM2s ? udma::kM2sQ : udma::kS2mQ;
}
}  // namespace

const RegTable<UdmaEngine>& UdmaEngine::table() {
  using E = UdmaEngine;
  constexpr uint32_t m = udma::kM2sQ;
  constexpr uint32_t s = udma::kS2mQ;
  constexpr uint32_t primary = udma::kPrimaryIrq;
  constexpr uint32_t secondary = udma::kSecondaryIrq;
  constexpr uint32_t v2 = udma::kV2Irq;
  static const RegTable<E> registers(
      "udma", udma::kRegs, contract::kUdmaUnit,
      {{udma::kM2sState, &E::read_state<kM2s>, nullptr},
       {udma::kM2sChangeState, nullptr, &E::write_change_state<kM2s>},
       {udma::kM2sStreamCfg, nullptr, &E::write_stream_cfg<udma::kM2sStreamCfg>},
       {udma::kS2mState, &E::read_state<kS2m>, nullptr},
       {udma::kS2mChangeState, nullptr, &E::write_change_state<kS2m>},
       {udma::kS2mStreamCfg, nullptr, &E::write_stream_cfg<udma::kS2mStreamCfg>},
       {m + udma::kM2sQCfg, nullptr, &E::write_cfg<kM2s>},
       {m + udma::kM2sQStatus, &E::read_status<kM2s>, nullptr},
       {m + udma::kM2sQRingBaseLo, nullptr, &E::write_base_lo<kM2s>},
       {m + udma::kM2sQRingBaseHi, nullptr, &E::write_base_hi<kM2s>},
       {m + udma::kM2sQRingLength, nullptr, &E::write_length<kM2s>},
       {m + udma::kM2sQHead, &E::read_head<kM2s>, nullptr},
       {m + udma::kM2sQTailInc, nullptr, &E::write_tail_inc<kM2s>},
       {m + udma::kM2sQTail, &E::read_tail<kM2s>, nullptr},
       {m + udma::kM2sQCurrent, &E::read_current<kM2s>, nullptr},
       {m + udma::kM2sQSwCtrl, nullptr, &E::write_sw_ctrl<kM2s>},
       {s + udma::kS2mQCfg, nullptr, &E::write_cfg<kS2m>},
       {s + udma::kS2mQStatus, &E::read_status<kS2m>, nullptr},
       {s + udma::kS2mQRingBaseLo, nullptr, &E::write_base_lo<kS2m>},
       {s + udma::kS2mQRingBaseHi, nullptr, &E::write_base_hi<kS2m>},
       {s + udma::kS2mQRingLength, nullptr, &E::write_length<kS2m>},
       {s + udma::kS2mQHead, &E::read_head<kS2m>, nullptr},
       {s + udma::kS2mQTailInc, nullptr, &E::write_tail_inc<kS2m>},
       {s + udma::kS2mQTail, &E::read_tail<kS2m>, nullptr},
       {s + udma::kS2mQCurrent, &E::read_current<kS2m>, nullptr},
       {s + udma::kS2mQSwCtrl, nullptr, &E::write_sw_ctrl<kS2m>},
       {primary + udma::kPrimaryIrqCause, &E::read_cause<primary>, &E::write_cause<primary>},
       {primary + udma::kPrimaryIrqCauseSet, nullptr, &E::write_cause_set<primary>},
       {primary + udma::kPrimaryIrqMask, nullptr, &E::write_mask<primary>},
       {primary + udma::kPrimaryIrqMaskClear, nullptr, &E::write_mask_clear<primary>},
       {primary + udma::kPrimaryIrqStatus, &E::read_irq_status<primary>, nullptr},
       {secondary + udma::kSecondaryIrqCause, &E::read_cause<secondary>,
        &E::write_cause<secondary>},
       {secondary + udma::kSecondaryIrqCauseSet, nullptr, &E::write_cause_set<secondary>},
       {secondary + udma::kSecondaryIrqMask, nullptr, &E::write_mask<secondary>},
       {secondary + udma::kSecondaryIrqMaskClear, nullptr, &E::write_mask_clear<secondary>},
       {secondary + udma::kSecondaryIrqStatus, &E::read_irq_status<secondary>, nullptr},
       {v2 + udma::kV2IrqCause, &E::read_cause<v2>, &E::write_cause<v2>},
       {v2 + udma::kV2IrqCauseSet, nullptr, &E::write_cause_set<v2>},
       {v2 + udma::kV2IrqMask, nullptr, &E::write_mask<v2>},
       {v2 + udma::kV2IrqMaskClear, nullptr, &E::write_mask_clear<v2>},
       {v2 + udma::kV2IrqStatus, &E::read_irq_status<v2>, nullptr}});
  return registers;
}

bool UdmaEngine::enabled(uint32_t q, Half h) const {
  constexpr uint32_t both = udma::kM2sQCfgEnable.mask() | udma::kM2sQCfgEnablePrefetch.mask();
  return (value(group_of(h) + udma::kM2sQCfg, q) & both) == both;
}

// What packets look at, all at once: registers are written rarely.
void UdmaEngine::configure() {
  config_ = {};
  config_.known = true;
  // As after reset: nobody has configured it, which means no limit and length 0 as 64 KiB.
  const uint32_t length = value(udma::kM2sPktLenCfg) != 0 ? value(udma::kM2sPktLenCfg) : kLenCfg;
  const uint32_t max_bytes = udma::kM2sPktLenCfgMaxBytes.get(length);
  const uint32_t pref = value(udma::kM2sDescPrefCfg2);
  const uint32_t max_desc = udma::kM2sDescPrefCfg2MaxDesc.get(pref);
  config_.max_bytes = max_bytes == 0 ? contract::desc::kMaxPacketBytes : max_bytes;
  config_.max_descriptors =
      max_desc == 0 ? kMaxTxDescriptors : std::min(max_desc, kMaxTxDescriptors);
  config_.zero_is_64k = udma::kM2sPktLenCfgZeroIs64k.get(length) != 0;
  constexpr uint32_t off = udma::kS2mStreamCfgDisable.mask() | udma::kS2mStreamCfgFlush.mask();
  config_.stream_on = udma::kM2sStreamCfgDisable.get(value(udma::kM2sStreamCfg)) == 0 &&
                      (value(udma::kS2mStreamCfg) & off) == 0;
  config_.ring_id_masked[kM2s] = abort_masked(kM2s, m2s_cause::kRingId);
  config_.ring_id_masked[kS2m] = abort_masked(kS2m, s2m_cause::kRingId);
  using Rule = QueuePolicy::Rule;
  const Rule rule = context_.policy.rule;
  const bool v4 = context_.fabric.address_map().gen == contract::Gen::kV4;
  const bool classes = udma::kM2sDescPrefCfg2ForceRr.get(pref) == 0 &&
                       (rule == Rule::kGeneration ? v4 : rule == Rule::kStrictPriority);
  const bool stopped = udma::kS2mStreamCfgStopPrefetch.get(value(udma::kS2mStreamCfg)) != 0;
  for (uint32_t q = 0; q < kQueues; ++q) {
    const uint32_t m2s = value(udma::kM2sQ + udma::kM2sQCfg, q);
    const uint32_t s2m = value(udma::kS2mQ + udma::kM2sQCfg, q);
    const bool enabled = udma::kM2sQCfgEnable.get(m2s) != 0 && udma::kM2sQCfgEnable.get(s2m) != 0;
    if (udma::kM2sQCfgEnablePrefetch.get(m2s) != 0) config_.prefetching[kM2s] |= 1u << q;
    if (udma::kM2sQCfgEnablePrefetch.get(s2m) != 0 && !stopped) {
      config_.prefetching[kS2m] |= 1u << q;
    }
    const uint32_t limits = value(udma::kM2sQ + udma::kM2sQRateLimitMask, q);
    if (enabled) config_.scheduled |= 1u << q;
    if (udma::kM2sQRateLimitMaskDmbPause.get(limits) != 0) config_.dmb_ignored |= 1u << q;
    // A policy of others is told the classes, whatever we would make of them.
    const bool told = classes || arbiter_ != nullptr;
    config_.service_class[q] = static_cast<uint8_t>(told ? udma::kM2sQCfgQos.get(m2s) : 0);
    config_.classes |= config_.service_class[q] != 0;
  }
}

bool UdmaEngine::abort_masked(Half h, uint32_t cause) const {
  return (value(udma::kSecondaryIrq + udma::kSecondaryIrqAbortMask, h) & cause) == cause;
}

bool UdmaEngine::access(uint64_t offset, uint8_t* data, size_t size, bool write, bool debug) {
  const bool ok = RegBlock::access(offset, data, size, write, debug);
  const uint64_t queue = offset - (offset < udma::kS2mQ ? udma::kM2sQ : udma::kS2mQ);
  const bool doorbell =
      queue < kQueues * udma::kM2sQStride && queue % udma::kM2sQStride == udma::kM2sQTailInc;
  if (doorbell) return ok;  // changes nothing that is remembered
  noted_[kM2s] = noted_[kS2m] = 0;
  if (write) config_.known = false;
  return ok;
}

bool UdmaEngine::working() const {
  return !plan_.finished() || effects_.deferred() || unanswered_ != 0 || queues_.at_work();
}

template <Half H>
uint32_t UdmaEngine::read_status(uint32_t q, uint32_t, bool debug) {
  settle_for_read(debug);
  const HalfQueue& half = queues_.at(q).half[H];
  const uint32_t cfg = value(group_of(H) + udma::kM2sQCfg, q);
  uint32_t word = udma::kM2sQStatusUsed.set(0, half.pending);
  word = udma::kM2sQStatusPrefetch.set(word, udma::kM2sQCfgEnablePrefetch.get(cfg));
  word = udma::kM2sQStatusScheduler.set(word, udma::kM2sQCfgEnable.get(cfg));
  if (H == kM2s && queues_.at(q).dmb_waits && queues_.at(q).visible_at > context_.events.now()) {
    word = udma::kM2sQStatusDmbWait.set(word, 1);
  }
  return udma::kM2sQStatusFull.set(word, half.length != 0 && half.pending == half.length ? 1 : 0);
}

template <Half H>
uint32_t UdmaEngine::read_head(uint32_t q, uint32_t, bool debug) {
  settle_for_read(debug);
  const HalfQueue& half = queues_.at(q).half[H];
  if (half.length == 0) return half.current.word();
  return half.current.plus(std::min(half.visible, kPrefetchDepth), half.length).word();
}

template <Half H>
uint32_t UdmaEngine::read_tail(uint32_t q, uint32_t, bool) {
  return queues_.at(q).half[H].tail.word();
}

template <Half H>
uint32_t UdmaEngine::read_current(uint32_t q, uint32_t, bool debug) {
  settle_for_read(debug);
  return queues_.at(q).half[H].current.word();
}

template <Half H>
void UdmaEngine::write_cfg(uint32_t q, uint32_t value) {
  settle(context_.events.now());
  set_value(group_of(H) + udma::kM2sQCfg, value, q);
  config_.known = false;
  request_prefetch(q, H);
  // Descriptors that were prefetched before the queue was stopped go on.
  if (queues_.at(q).half[H].visible != 0) kick(context_.events.now() + 1);
}

template <Half H>
void UdmaEngine::write_base_lo(uint32_t q, uint32_t value) {
  settle(context_.events.now());
  set_value(group_of(H) + udma::kM2sQRingBaseLo, value, q);
  HalfQueue& half = queues_.at(q).half[H];
  half.base = (half.base & ~0xFFFFFFFFull) | value;
  queues_.ring_changed(q, H);
}

template <Half H>
void UdmaEngine::write_base_hi(uint32_t q, uint32_t value) {
  settle(context_.events.now());
  set_value(group_of(H) + udma::kM2sQRingBaseHi, value, q);
  HalfQueue& half = queues_.at(q).half[H];
  half.base = (half.base & 0xFFFFFFFFull) | static_cast<uint64_t>(value) << 32;
  queues_.ring_changed(q, H);
}

template <Half H>
void UdmaEngine::write_length(uint32_t q, uint32_t value) {
  settle(context_.events.now());
  set_value(group_of(H) + udma::kM2sQRingLength, value, q);
  HalfQueue& half = queues_.at(q).half[H];
  half.length = value;
  queues_.ring_changed(q, H);
  if (half.visible != 0) kick(context_.events.now() + 1);  // a ring that comes back goes on
}

template <Half H>
void UdmaEngine::write_tail_inc(uint32_t q, uint32_t value) {
  // A software error that hardware does not report is counted and has no effect.
  if (!queues_.announce(q, H, value & kIndexMask)) {
    ++context_.counters.bad_doorbells;
    return;
  }
  ++context_.counters.doorbells;
  if (checks_ != nullptr) checks_->rung(q, H, value & kIndexMask);
  request_prefetch(q, H);
}

void UdmaEngine::request_prefetch(uint32_t q, Half h) {
  const bool prefetches = state_[h] == State::kNormal && (config().prefetching[h] >> q & 1) != 0;
  if (!prefetches || !queues_.request(q, h)) return;
  // A run of another queue ends when they arrive; else the end of a packet is early enough.
  const bool other_runs = running_ && plan_.claimed() && packets_[0].packet.queue != q;
  if (other_runs || !normal()) wake(queues_.last_arrival());
  await_arrival();
}

void UdmaEngine::go_on() {
  unanswered_ = 0;
  for (uint32_t q = 0; q < kQueues; ++q) {
    if (queues_.touched(q) == nullptr) continue;
    for (Half h : {kM2s, kS2m}) request_prefetch(q, h);
  }
  kick(context_.events.now() + 1);
  await_arrival();
}

// The packet in flight finishes, without touching the pointers. In an empty queue head and current
// are one pointer, which either bit resets.
template <Half H>
void UdmaEngine::write_sw_ctrl(uint32_t q, uint32_t value) {
  settle(context_.events.now());
  if (udma::kM2sQSwCtrlReset.get(value) != 0) {
    unanswered_ &= ~(1u << q);
    if (checks_ != nullptr) checks_->reset(q, H);
    return queues_.reset(q, H);
  }
  HalfQueue& half = queues_.at(q).half[H];
  const bool tail = udma::kM2sQSwCtrlResetTail.get(value) != 0;
  const bool current =
      udma::kM2sQSwCtrlResetHead.get(value) != 0 || udma::kM2sQSwCtrlResetCurrent.get(value) != 0;
  if (tail || current) {
    unanswered_ &= ~(1u << q);
    if (checks_ != nullptr) checks_->reset(q, H);
    queues_.drop(q, H);
  }
  if (tail) half.tail = RingPointer{};
  if (current) half.current = RingPointer{};
  if (H == kM2s && udma::kM2sQSwCtrlResetDmb.get(value) != 0 && queues_.at(q).dmb_waits) {
    queues_.at(q).dmb_waits = false;
    queues_.at(q).dmb_released = true;
    kick(context_.events.now() + 1);
  }
}

template <Half H>
uint32_t UdmaEngine::read_state(uint32_t, uint32_t, bool debug) {
  settle_for_read(debug);
  const uint32_t field = aborted(H) ? 2 : working() ? 1 : 0;
  return udma::kM2sStateCompletion.set(0, field) | udma::kM2sStateStream.set(0, field) |
         udma::kM2sStateData.set(0, field) | udma::kM2sStatePrefetch.set(0, field);
}

template <Half H>
void UdmaEngine::write_change_state(uint32_t, uint32_t value) {
  arrive(context_.events.now());
  if (value == kChangeAbort) {
    abort(H == kM2s, H == kS2m);
  } else if (value == kChangeDisable && !aborted(H)) {
    settle(context_.events.now());
    state_[H] = State::kDisabled;
  } else if (value == kChangeNormal) {
    state_[H] = State::kNormal;
    go_on();
  }
}

template <uint32_t Register>
void UdmaEngine::write_stream_cfg(uint32_t, uint32_t value) {
  settle(context_.events.now());
  set_value(Register, value);
  config_.known = false;
  go_on();
}

// Interrupt groups. Cause bits are cleared by writing 0 (as the mask bits through mask_clear), or
// by reading them when control says so. Setting one by software stops nothing.
template <uint32_t Group>
uint32_t UdmaEngine::read_cause(uint32_t g, uint32_t stored, bool debug) {
  const uint32_t control = value(Group + udma::kSecondaryIrqControl, g);
  if (!debug && udma::kSecondaryIrqControlClearOnRead.get(control) != 0) {
    set_value(Group, 0, g);
    summarise();
  }
  return stored;
}

template <uint32_t Group>
void UdmaEngine::write_cause(uint32_t g, uint32_t value) {
  set_value(Group, this->value(Group, g) & value, g);
  summarise();
}

template <uint32_t Group>
void UdmaEngine::write_cause_set(uint32_t g, uint32_t value) {
  set_value(Group, this->value(Group, g) | value, g);
  summarise();
}

template <uint32_t Group>
void UdmaEngine::write_mask(uint32_t g, uint32_t value) {
  set_value(Group + udma::kSecondaryIrqMask, value, g);
  summarise();
}

template <uint32_t Group>
void UdmaEngine::write_mask_clear(uint32_t g, uint32_t value) {
  constexpr uint32_t mask = Group + udma::kSecondaryIrqMask;
  set_value(mask, this->value(mask, g) & value, g);
  summarise();
}

template <uint32_t Group>
uint32_t UdmaEngine::read_irq_status(uint32_t g, uint32_t, bool) {
  return Group == udma::kPrimaryIrq && g == kPrimaryD ? summary_ : value(Group, g);
}

// Group D sees one input per secondary group: whether it has a cause that is not masked.
void UdmaEngine::summarise() {
  uint32_t inputs = 0;
  for (uint32_t g = 0; g < udma::kSecondaryIrqCount; ++g) {
    const uint32_t live = value(udma::kSecondaryIrq + udma::kSecondaryIrqCause, g) &
                          ~value(udma::kSecondaryIrq + udma::kSecondaryIrqMask, g);
    if (live != 0) inputs |= 1u << (kPrimaryDFirstBit + g);
  }
  const uint32_t control = value(udma::kPrimaryIrq + udma::kPrimaryIrqControl, kPrimaryD);
  const bool edge = udma::kPrimaryIrqControlPositiveEdge.get(control) != 0;
  const uint32_t raised = edge ? inputs & ~summary_ : inputs;
  summary_ = inputs;
  if (raised == 0) return;
  set_value(udma::kPrimaryIrq, value(udma::kPrimaryIrq, kPrimaryD) | raised, kPrimaryD);
}

}  // namespace hw

#include "driver/kernel/dma_engines.h"

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "contract/regs/errtrig.h"
#include "contract/regs/sdma.h"
#include "contract/regs/udma.h"

namespace driver {

namespace udma = contract::udma;
namespace sdma = contract::sdma;

namespace {

// Queue configuration word (spec/hw-registers.md 3.4): reset value, and with both enables.
constexpr uint32_t kQueueDisabled = 0x0300'0000;
constexpr uint32_t kQueueEnables = 0x0003'0000;
constexpr uint32_t kQueues = uapi::kQueuesPerEngine;

constexpr uint32_t m2s_queue(uint32_t q) {
  return udma::kM2sQ + q * udma::kM2sQStride;
}
constexpr uint32_t s2m_queue(uint32_t q) {
  return udma::kS2mQ + q * udma::kS2mQStride;
}

// Broadcast words of engine e of its NC (spec/hw-registers.md 3.8).
constexpr uint32_t broadcast_group(uint32_t e) {
  return 0xFFFFu >> e;
}
constexpr uint32_t broadcast_last(uint32_t e) {
  return e == 0 || e == 3 || e == 6 || e == 9 || e == 15 ? 0xFFFF : 0;
}

uint32_t engine_direction_state(uint32_t state, bool ignore_stream) {
  bool normal = false;
  const contract::Field fields[] = {udma::kM2sStateCompletion, udma::kM2sStateStream,
                                    udma::kM2sStateData, udma::kM2sStatePrefetch};
  for (const contract::Field& field : fields) {
    if (ignore_stream && field.lsb == udma::kM2sStateStream.lsb) continue;
    const uint32_t value = field.get(state);
    if (value == 2) return uapi::kDmaAbort;
    normal = normal || value == 1;
  }
  return normal ? uapi::kDmaNormal : uapi::kDmaIdle;
}

}  // namespace

// Writes relative to a register block.
class DmaEngines::Writer {
 public:
  Writer(const Registers& registers, uint64_t base) : registers_(registers), base_(base) {}
  void operator()(uint32_t offset, uint32_t value) const {
    registers_.write(base_ + offset, value);
  }
  uint32_t read(uint32_t offset) const { return registers_.read(base_ + offset); }

 private:
  const Registers& registers_;
  uint64_t base_;
};

DmaEngines::DmaEngines(const Dhal& dhal, const Registers& registers)
    : dhal_(dhal), registers_(registers), engines_(dhal.map.dma_engines()) {
  for (uint32_t e = 0; e < count(); ++e) units_.push_back(dhal_.map.udma(e));
  std::sort(units_.begin(), units_.end(),
            [](const auto& a, const auto& b) { return a.bar0 < b.bar0; });
}

// Step numbers are those of spec/hw-registers.md 3.10.
void DmaEngines::init_engine(uint32_t engine) {
  const Writer unit(registers_, dhal_.map.udma(engine).bar0);
  const Writer wrapper(registers_, dhal_.map.sdma(engine).bar0);
  if (dhal_.broadcast_groups && !dhal_.is_h2t_engine(engine)) {  // 1
    const uint32_t e = engine % contract::kDmaPerNc;
    wrapper(sdma::kBroadcastGroup, broadcast_group(e));
    wrapper(sdma::kBroadcastLast, broadcast_last(e));
  }
  const uint32_t cached = engines_[engine].initialised ? kQueueDisabled : 0;
  for (uint32_t q = 0; q < kQueues; ++q) {  // 2
    unit(m2s_queue(q) + udma::kM2sQCfg, cached | kQueueEnables);
    unit(s2m_queue(q) + udma::kS2mQCfg, cached | kQueueEnables);
  }
  configure_streams(unit);                                          // 3 - 14a
  unit(udma::kSpareZeroes0, unit.read(udma::kSpareZeroes0) & ~1u);  // 15
  configure_interrupts(unit);                                       // 16 - 21
  configure_limits(unit);                                           // 22 - 25
  wrapper(sdma::kReadReorder, 1);                                   // 26
  wrapper(sdma::kWriteReorder, 1);
  wrapper(sdma::kEventAccel, 1);
  if (dhal_.overhead_beats) wrapper(sdma::kOverheadBeats, 0x26);
  if (dhal_.axi_error_tables) configure_axi_errors(unit);           // 27
  if (dhal_.mask_ring_id_errors && !dhal_.is_h2t_engine(engine)) {  // 28
    mask_ring_id_errors(unit, engine);
  }
  engines_[engine].initialised = true;
  for (DmaQueue& queue : engines_[engine].queues) queue.rx_enabled = false;
}

void DmaEngines::configure_streams(const Writer& unit) const {
  unit(udma::kM2sDataRdCfg, dhal_.m2s_data_rd_cfg);
  unit(udma::kM2sAxiOutstanding, dhal_.m2s_axi_outstanding);
  unit(udma::kAxiTimeout, 100'000'000);
  unit(udma::kM2sCompAckTimeout, 0);
  unit(udma::kM2sPktLenCfg, 0x010F'FFFF);
  unit(udma::kM2sStreamCfg, 0x0000'0102);
  for (uint32_t q = 0; q < kQueues; ++q) {
    unit(udma::kTxSelector + q * udma::kTxSelectorStride, 0xFFFF'FFFF);
  }
  unit(udma::kM2sAxiDataRdCfg, 0x0001'0008);
  unit(udma::kS2mCompAckTimeout, 0);
  for (uint32_t q = 0; q < kQueues; ++q) {
    const uint32_t at = udma::kTxSelector + q * udma::kTxSelectorStride;
    unit(at + udma::kTxSelectorRx0, 0xFFFF'FFFF);
    unit(at + udma::kTxSelectorRx1, 0xFFFF'FFFF);
    unit(at + udma::kTxSelectorRx2, 0xFFFF'FFFF);
  }
  unit(udma::kS2mAxiOutstandingRd, dhal_.s2m_axi_outstanding_rd);
  unit(udma::kS2mAxiOutstandingWr, 0x4080'4080);
  if (dhal_.s2m_outstanding_wr_2) {
    const uint32_t value = unit.read(udma::kS2mAxiOutstandingWr2);
    unit(udma::kS2mAxiOutstandingWr2, (value & ~0x3FFu) | 0x100);
  }
}

void DmaEngines::configure_interrupts(const Writer& unit) const {
  constexpr uint32_t kPrimaryD = udma::kPrimaryIrq + 3 * udma::kPrimaryIrqStride;
  constexpr uint32_t kA = udma::kSecondaryIrq;
  constexpr uint32_t kB = kA + udma::kSecondaryIrqStride;
  constexpr uint32_t kC = kB + udma::kSecondaryIrqStride;
  constexpr uint32_t kPositiveEdgeNoMsix = 0x28;
  struct Half {
    uint32_t group, group_bits, fifo_bits, summary_bits;
  };
  // The M2S half, then the S2M half; both share the FIFO group C and the summary group D.
  constexpr Half kHalves[] = {{kA, 0xF000'0000, 0xFFFF'FFC0, 0xFFFF'FAFF},
                              {kB, 0x0000'10F8, 0xFFFF'F03F, 0xFFFF'F9FF}};
  for (const Half& half : kHalves) {
    unit(half.group + udma::kSecondaryIrqControl, kPositiveEdgeNoMsix);
    unit(kPrimaryD + udma::kPrimaryIrqControl, kPositiveEdgeNoMsix);
    unit(half.group + udma::kSecondaryIrqAbortMask, half.group_bits);
    unit(kC + udma::kSecondaryIrqAbortMask, half.fifo_bits);
    unit(half.group + udma::kSecondaryIrqMaskClear, half.group_bits);
    unit(kC + udma::kSecondaryIrqMaskClear, half.fifo_bits);
    unit(kPrimaryD + udma::kPrimaryIrqMaskClear, half.summary_bits);
  }
}

void DmaEngines::configure_limits(const Writer& unit) const {
  unit(udma::kS2mCompCfg1c, 0x0000'1004);
  unit(udma::kM2sDescPrefCfg2, 0x0001'0041);
  unit(udma::kM2sDescPrefCfg3, 0x0000'4181);
  unit(udma::kS2mDescPrefCfg3, 0x0000'4181);
  unit(udma::kM2sAxiDescRdCfg3, 0x0001'0008);
  unit(udma::kS2mAxiDescRdCfg3, 0x0001'0008);
}

void DmaEngines::configure_axi_errors(const Writer& unit) const {
  constexpr uint32_t kTables = 6;
  constexpr uint32_t kWords[] = {udma::kAxiErrorTableWord1,  udma::kAxiErrorTableWord2,
                                 udma::kAxiErrorTableWord3,  udma::kAxiErrorTableWord9,
                                 udma::kAxiErrorTableWord10, udma::kAxiErrorTableWord11};
  for (uint32_t t = 0; t < kTables; ++t) {
    for (const uint32_t word : kWords) {
      unit(udma::kAxiErrorTable + t * udma::kAxiErrorTableStride + word, 0xF);
    }
  }
  for (uint32_t t = 0; t < kTables; ++t) {
    const uint32_t at = udma::kAxiErrorCtrl + t * udma::kAxiErrorCtrlStride;
    for (uint32_t q = 0; q < kQueues; ++q) {
      unit(at + udma::kAxiErrorCtrlAddress, q << 3 | 7);
      unit(at + udma::kAxiErrorCtrlData, 0x10);
    }
  }
  // M2S descriptor, data, completion; S2M descriptor, data, completion (spec/hw-registers.md 3.9).
  constexpr uint32_t kGroups[] = {0x3AD00, 0x3AE00, 0x3AF00, 0x3B000, 0x3B100, 0x3B200};
  static_assert(kGroups[0] == udma::kV2Irq && kGroups[5] == udma::kV2Irq + 5 * udma::kV2IrqStride);
  for (const uint32_t group : kGroups) {
    unit(group + udma::kV2IrqControl, 0x28);
    unit(group + udma::kV2IrqAbortMask, 0);
    unit(group + udma::kV2IrqMaskClear, 0);
  }
  unit(udma::kAxiTimeout, 0xFFFF'FFFF);
}

void DmaEngines::mask_ring_id_errors(const Writer& unit, uint32_t engine) const {
  constexpr uint32_t kM2sRingId = 1u << 17;  // secondary group A (spec/hw-registers.md 3.9)
  constexpr uint32_t kS2mRingId = 1u << 11;  // secondary group B
  constexpr uint32_t kA = udma::kSecondaryIrq;
  constexpr uint32_t kB = kA + udma::kSecondaryIrqStride;
  uint32_t value = unit.read(kA + udma::kSecondaryIrqMask) | kM2sRingId;
  unit(kA + udma::kSecondaryIrqMask, value);
  unit(kA + udma::kSecondaryIrqAbortMask, value);
  value = unit.read(kB + udma::kSecondaryIrqMask) | kS2mRingId;
  unit(kB + udma::kSecondaryIrqMask, value);
  unit(kB + udma::kSecondaryIrqAbortMask, value);

  const Writer trigger(registers_, dhal_.map.error_trigger(engine).bar0);
  constexpr uint32_t kGroup2 = 2 * contract::errtrig::kIrqStride + contract::errtrig::kIrqMask;
  constexpr uint32_t kGroup3 = 3 * contract::errtrig::kIrqStride + contract::errtrig::kIrqMask;
  trigger(kGroup2, trigger.read(kGroup2) | 0x800);
  trigger(kGroup3, trigger.read(kGroup3) | 0x4);
  unit(udma::kM2sErrLogMask, unit.read(udma::kM2sErrLogMask) | kM2sRingId);
  unit(udma::kS2mErrLogMask, unit.read(udma::kS2mErrLogMask) | kS2mRingId);
}

namespace {

int check_ring(const RingSetup& ring) {
  if (ring.base % 256 != 0 || ring.length % 16 != 0) return -EPERM;
  if (ring.length < DmaEngines::kMinRing || ring.length > DmaEngines::kMaxRing) return -EINVAL;
  return 0;
}

}  // namespace

// spec/hw-registers.md 3.11.
int DmaEngines::init_queue(uint32_t engine, uint32_t q, const RingSetup& tx, const RingSetup& rx) {
  const uint64_t base = dhal_.map.udma(engine).bar0;
  DmaQueue& state = queue(engine, q);
  if (const int error = check_ring(tx); error != 0) return error;
  const Writer m2s(registers_, base + m2s_queue(q));
  m2s(udma::kM2sQRateLimitMask, 3);
  m2s(udma::kM2sQCfg, kQueueDisabled);
  m2s(udma::kM2sQSwCtrl, udma::kM2sQSwCtrlReset.mask());
  m2s(udma::kM2sQRingBaseLo, static_cast<uint32_t>(tx.base));
  m2s(udma::kM2sQRingBaseHi, static_cast<uint32_t>(tx.base >> 32));
  m2s(udma::kM2sQRingLength, tx.length);
  m2s(udma::kM2sQCompCfg, 0);
  m2s(udma::kM2sQCfg, kQueueDisabled | kQueueEnables);
  state.tx_length = tx.length;

  if (const int error = check_ring(rx); error != 0) return error;
  const Writer s2m(registers_, base + s2m_queue(q));
  s2m(udma::kS2mQCfg, kQueueDisabled);
  s2m(udma::kS2mQSwCtrl, udma::kS2mQSwCtrlReset.mask());
  s2m(udma::kS2mQRingBaseLo, static_cast<uint32_t>(rx.base));
  s2m(udma::kS2mQRingBaseHi, static_cast<uint32_t>(rx.base >> 32));
  s2m(udma::kS2mQRingLength, rx.length);
  s2m(udma::kS2mQCompCfg, 0);
  s2m(udma::kS2mQCfg, kQueueDisabled | kQueueEnables);
  state.rx_enabled = true;
  state.rx_length = rx.length;
  return 0;
}

void DmaEngines::ring_rx(uint32_t engine, uint32_t q, uint32_t count) const {
  registers_.write(dhal_.map.udma(engine).bar0 + s2m_queue(q) + udma::kS2mQTailInc, count);
}

void DmaEngines::ring_tx(uint32_t engine, uint32_t q, uint32_t count) const {
  registers_.write(dhal_.map.udma(engine).bar0 + m2s_queue(q) + udma::kM2sQTailInc, count);
}

void DmaEngines::set_state(uint32_t engine, uint32_t state) const {
  // Change-state commands of spec/hw-registers.md 3.7; other states change nothing
  // (spec/driver-ioctl.md 3.5.1).
  const uint32_t command = state == uapi::kDmaDisable  ? 2u
                           : state == uapi::kDmaNormal ? 1u
                           : state == uapi::kDmaAbort  ? 4u
                                                       : 0u;
  if (command == 0) return;
  const uint64_t base = dhal_.map.udma(engine).bar0;
  registers_.write(base + udma::kM2sChangeState, command);
  registers_.write(base + udma::kS2mChangeState, command);
}

uapi::dma_eng_state DmaEngines::state(uint32_t engine) const {
  uapi::dma_eng_state out{4, kQueues, 0, uapi::kDmaIdle, uapi::kDmaIdle};
  if (!engines_[engine].initialised) return out;
  out.num_queues = kQueues;
  const uint64_t base = dhal_.map.udma(engine).bar0;
  const uint32_t m2s = registers_.read(base + udma::kM2sState);
  const uint32_t s2m = registers_.read(base + udma::kS2mState);
  constexpr uint32_t kStreamDisabled = 1u << 0 | 1u << 4 | 1u << 8;
  const uint32_t stream = registers_.read(base + udma::kS2mStreamCfg);
  const bool disabled = (stream & kStreamDisabled) == kStreamDisabled;
  for (uint32_t q = 0; q < kQueues; ++q) {
    // The driver reads these to compare them with the stream bits; the result only feeds its log.
    if (engines_[engine].queues[q].rx_enabled) {
      registers_.read(base + s2m_queue(q) + udma::kS2mQCfg);
    }
  }
  out.tx_state = engine_direction_state(m2s, false);
  out.rx_state = engine_direction_state(s2m, disabled);
  return out;
}

uapi::dma_queue_state DmaEngines::queue_state(uint32_t engine, uint32_t q, bool tx) const {
  const uint64_t at = dhal_.map.udma(engine).bar0 + (tx ? m2s_queue(q) : s2m_queue(q));
  // Both halves have these registers at the same offsets; the order is that of
  // spec/hw-registers.md 3.11.
  const auto read = [&](uint32_t offset) { return registers_.read(at + offset); };
  uapi::dma_queue_state out{};
  out.hw_status = read(udma::kM2sQStatus);
  out.length = read(udma::kM2sQRingLength) & 0xFF'FFFF;
  uint64_t high = read(udma::kM2sQRingBaseHi);
  out.base_addr = high << 32 | read(udma::kM2sQRingBaseLo);
  high = read(udma::kM2sQCompBaseHi);
  out.completion_base_addr = high << 32 | read(udma::kM2sQCompBaseLo);
  out.head_pointer = udma::kM2sQHeadIndex.get(read(udma::kM2sQHead));
  out.tail_pointer = udma::kM2sQTailIndex.get(read(udma::kM2sQTail));
  out.completion_head = read(udma::kM2sQCompHead) & 0xFF'FFFF;
  // The driver takes every queue of an engine that it has set up for enabled.
  out.sw_status = engines_[engine].initialised ? uapi::kQueueEnabled : uapi::kQueueDisabled;
  return out;
}

RingSetup DmaEngines::ring_of(uint32_t engine, uint32_t q, bool tx) const {
  const uint64_t at = dhal_.map.udma(engine).bar0 + (tx ? m2s_queue(q) : s2m_queue(q));
  const uint64_t high = registers_.read(at + udma::kM2sQRingBaseHi);
  RingSetup ring;
  ring.base = high << 32 | registers_.read(at + udma::kM2sQRingBaseLo);
  ring.length = registers_.read(at + udma::kM2sQRingLength) & 0xFF'FFFF;
  return ring;
}

bool DmaEngines::write_blocked(uint64_t bar_offset) const {
  const auto after = std::upper_bound(
      units_.begin(), units_.end(), bar_offset,
      [](uint64_t offset, const contract::Window& unit) { return offset < unit.bar0; });
  if (after == units_.begin()) return false;
  const contract::Window& unit = *std::prev(after);
  const uint64_t in = bar_offset - unit.bar0;
  if (in >= unit.size) return false;
  const uint64_t half = in >= udma::kS2mQ ? udma::kS2mQ : udma::kM2sQ;
  if (in < half || in >= half + uint64_t{kQueues} * udma::kM2sQStride) return false;
  switch ((in - half) % udma::kM2sQStride & ~uint64_t{3}) {
    case udma::kM2sQRingBaseLo:
    case udma::kM2sQRingBaseHi:
    case udma::kM2sQCompBaseLo:
    case udma::kM2sQCompBaseHi:
    case udma::kM2sQTailInc:
      return true;
    default:
      return false;
  }
}

}  // namespace driver

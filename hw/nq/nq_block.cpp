#include "hw/nq/nq_block.h"

#include "base/span.h"

namespace hw {

namespace nq = contract::nq;
using contract::NqEntry;

namespace {

constexpr uint32_t kEntryBytes = sizeof(NqEntry);

bool legal_size(uint32_t size) {
  return size >= kEntryBytes && (size & (size - 1)) == 0;
}

}  // namespace

NqBlock::NqBlock(const Params& params, EventQueue& queue, Fabric& fabric, Counters* counters)
    : RegBlock(fabric.log(), fabric.address_map().gen),
      params_(params),
      queue_(queue),
      fabric_(fabric),
      counters_(counters) {}

const RegTable<NqBlock>& NqBlock::table() {
  static const RegTable<NqBlock> t("nq", nq::kRegs, kBytes,
                                   {{nq::kSet + nq::kSetSize, nullptr, &NqBlock::write_size},
                                    {nq::kSet + nq::kSetHead, &NqBlock::read_head, nullptr}});
  return t;
}

// A driver writes base, then size (spec/hw-registers.md 5.3): a ring starts anew with its size.
void NqBlock::write_size(uint32_t set, uint32_t value) {
  set_value(nq::kSet + nq::kSetSize, value, set);
  Ring& ring = rings_[set];
  ring = Ring{};
  ring.base = static_cast<uint64_t>(this->value(nq::kSet + nq::kSetBaseHi, set)) << 32 |
              this->value(nq::kSet + nq::kSetBaseLo, set);
  ring.size = legal_size(value) ? value : 0;
}

void NqBlock::post(uint32_t set, const NqEntry& entry) {
  posted_.push_back({set, entry});
  const base::Ps delay = params_.entry_time == 0 ? 1 : params_.entry_time;
  queue_.schedule({queue_.now() + delay, params_.component, Phase::kEffect}, *this, 0, epoch_);
}

// Entries take the same time, so they are written in the order in which they were posted.
void NqBlock::on_event(const EventKey& /*key*/, uint32_t /*tag*/, uint64_t argument) {
  if (argument != epoch_) return;
  const Posted posted = posted_.front();
  posted_.pop_front();
  write_entry(posted);
}

void NqBlock::write_entry(const Posted& posted) {
  Ring& ring = rings_[posted.set];
  if (ring.size == 0) {
    ++dropped_;
    return;
  }
  NqEntry entry = posted.entry;
  entry.header = (entry.header & ~NqEntry::kPhase) | (ring.phase ? NqEntry::kPhase : 0);
  uint8_t bytes[kEntryBytes];
  base::store(bytes, entry);
  const uint64_t address = ring.base + ring.head;
  if (fabric_.is_register(address) || !fabric_.write(address, {bytes, sizeof bytes})) {
    ++dropped_;
    return;
  }
  if (counters_ != nullptr) ++counters_->notifications;
  ring.head += kEntryBytes;
  if (ring.head == ring.size) {
    ring.head = 0;
    ring.phase = !ring.phase;
  }
}

void NqBlock::reset() {
  reset_registers();
  rings_.fill(Ring{});
  posted_.clear();
  ++epoch_;
}

}  // namespace hw

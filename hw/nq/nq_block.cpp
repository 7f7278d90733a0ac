#include "hw/nq/nq_block.h"

#include "base/span.h"
#include "contract/regs/nq.h"

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
    : params_(params), queue_(queue), fabric_(fabric), counters_(counters) {
  static_assert(std::tuple_size<decltype(rings_)>::value == nq::kSetCount);
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
  if (!legal_size(ring.size)) {
    ++dropped_;
    return;
  }
  NqEntry entry = posted.entry;
  entry.header = (entry.header & ~NqEntry::kPhase) | (ring.phase ? NqEntry::kPhase : 0);
  uint8_t bytes[kEntryBytes];
  base::store(bytes, entry);
  const uint64_t address = (static_cast<uint64_t>(ring.base_hi) << 32 | ring.base_lo) + ring.head;
  if (!fabric_.write(address, {bytes, sizeof bytes})) {
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
  rings_.fill(Ring{});
  posted_.clear();
  ++epoch_;
}

uint32_t* NqBlock::reg(uint64_t offset, uint32_t* set) {
  if (offset < nq::kSet) return nullptr;
  *set = static_cast<uint32_t>((offset - nq::kSet) / nq::kSetStride);
  if (*set >= nq::kSetCount) return nullptr;
  Ring& ring = rings_[*set];
  switch ((offset - nq::kSet) % nq::kSetStride) {
    case nq::kSetBaseLo:
      return &ring.base_lo;
    case nq::kSetBaseHi:
      return &ring.base_hi;
    case nq::kSetSize:
      return &ring.size;
    case nq::kSetHead:
      return &ring.head;
    default:
      return nullptr;
  }
}

bool NqBlock::access(uint64_t offset, uint8_t* data, size_t size, bool write, bool debug) {
  if (offset % 4 != 0 || size % 4 != 0 || offset + size > kBytes) return false;
  if (write && size != 4) return false;
  for (size_t at = 0; at < size; at += 4) {
    uint32_t set = 0;
    uint32_t* value = reg(offset + at, &set);
    if (!write) {
      base::store<uint32_t>(data + at, value != nullptr ? *value : 0);
      continue;
    }
    if (value == nullptr || debug || value == &rings_[set].head) continue;
    *value = base::load<uint32_t>(data + at);
    // A driver writes base, then size (hw-registers.md 5.3): a ring starts anew with its size.
    if (value == &rings_[set].size) {
      rings_[set].head = 0;
      rings_[set].phase = true;
    }
  }
  return true;
}

}  // namespace hw

#include "hw/sync/semaphore_block.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "arch/contract/semaphore.h"
#include "base/span.h"
#include "contract/regs/sem.h"

namespace hw {

namespace sem = contract::sem;
using contract::isa::UpdateOp;
using contract::isa::WaitCond;

namespace {

constexpr uint32_t kCount = sem::kReadCount;
constexpr uint32_t kAliasBytes = kCount * sem::kReadStride;

bool is_event(WaitCond cond) {
  return cond == WaitCond::kEventSet || cond == WaitCond::kEventClear;
}

const char* symbol(WaitCond cond) {
  constexpr const char* kText[] = {"", ">=", ">", "==", "<=", "<", "!="};
  return static_cast<size_t>(cond) < 7 ? kText[static_cast<size_t>(cond)] : "";
}

}  // namespace

std::string to_string(const SemaphoreWait& wait, const SemaphoreBlock& block) {
  const std::string id = std::to_string(wait.id);
  if (wait.cond == WaitCond::kEventSet) return "event " + id + " to be set";
  if (wait.cond == WaitCond::kEventClear) return "event " + id + " to be clear";
  return "semaphore " + id + " " + symbol(wait.cond) + " " +
         std::to_string(static_cast<int32_t>(wait.value)) + ", which is " +
         std::to_string(static_cast<int32_t>(block.value(wait.id)));
}

uint32_t* SemaphoreBlock::word(uint32_t offset) const {
  return reinterpret_cast<uint32_t*>(pages_.data() + offset);
}

uint32_t SemaphoreBlock::value(uint32_t semaphore) const {
  return *word(sem::kRead + semaphore * sem::kReadStride);
}

bool SemaphoreBlock::event(uint32_t event) const {
  return *word(sem::kEvent + event * sem::kEventStride) != 0;
}

bool SemaphoreBlock::satisfied(const SemaphoreWait& wait) const {
  if (is_event(wait.cond)) return contract::meets(wait.cond, event(wait.id) ? 1 : 0, 0);
  return contract::meets(wait.cond, value(wait.id), wait.value);
}

void SemaphoreBlock::put(uint32_t semaphore, uint32_t value, check::SemaphoreChecks::Update how) {
  *word(sem::kRead + semaphore * sem::kReadStride) = value;
  if (checks_ != nullptr) checks_->updated(false, semaphore, value, how);
  if (counters_ != nullptr) ++counters_->semaphore_updates;
  if (waiting_[semaphore] != 0) changed(false, semaphore);
}

void SemaphoreBlock::set_event(uint32_t event, bool value) {
  if (this->event(event) == value) ++event_conflicts_;
  *word(sem::kEvent + event * sem::kEventStride) = value ? 1 : 0;
  if (checks_ != nullptr) {
    checks_->updated(true, event, value ? 1 : 0, check::SemaphoreChecks::Update::kSet);
  }
  if (counters_ != nullptr) ++counters_->semaphore_updates;
  if (waiting_[kCount + event] != 0) changed(true, event);
}

void SemaphoreBlock::apply(const contract::isa::Update& update) {
  switch (update.op) {
    case UpdateOp::kNone:
      return;
    case UpdateOp::kInc:
      return add(update.id, 1);
    case UpdateOp::kDec:
      return add(update.id, ~0u);
    case UpdateOp::kAdd:
      return add(update.id, update.value);
    case UpdateOp::kSub:
      return add(update.id, 0u - update.value);
    case UpdateOp::kWrite:
      return set(update.id, update.value);
    case UpdateOp::kEventSet:
      return set_event(update.id, true);
    case UpdateOp::kEventClear:
      return set_event(update.id, false);
  }
}

void SemaphoreBlock::clear_semaphores(uint32_t first, uint32_t last) {
  for (uint32_t i = first; i <= last && i < kCount; ++i) set(i, 0);
}

void SemaphoreBlock::clear_events(uint32_t first, uint32_t last) {
  for (uint32_t i = first; i <= last && i < kCount; ++i) {
    if (event(i)) set_event(i, false);
  }
}

void SemaphoreBlock::reset() {
  std::memset(pages_.data(), 0, kBytes);
  if (checks_ != nullptr) checks_->reset();
  waiters_.clear();
  waiting_.fill(0);
}

void SemaphoreBlock::wait(const SemaphoreWait& wait, SemaphoreWaiter& waiter) {
  waiters_.push_back({wait, &waiter});
  ++waiting_[wait.id + (is_event(wait.cond) ? kCount : 0)];
}

void SemaphoreBlock::cancel(SemaphoreWaiter& waiter) {
  const auto found = std::find_if(waiters_.begin(), waiters_.end(),
                                  [&](const Entry& e) { return e.waiter == &waiter; });
  if (found == waiters_.end()) return;
  --waiting_[found->wait.id + (is_event(found->wait.cond) ? kCount : 0)];
  waiters_.erase(found);
}

// A block has at most six waiters (five engines or one CC-core), so the list is walked only when
// one of them waits for this very semaphore.
void SemaphoreBlock::changed(bool event, uint32_t id) {
  for (size_t i = 0; i < waiters_.size();) {
    const Entry entry = waiters_[i];
    if (entry.wait.id != id || is_event(entry.wait.cond) != event || !satisfied(entry.wait)) {
      ++i;
      continue;
    }
    waiters_.erase(waiters_.begin() + static_cast<std::ptrdiff_t>(i));
    --waiting_[id + (event ? kCount : 0)];
    entry.waiter->wait_satisfied();
  }
}

void SemaphoreBlock::count(AccessLog::Kind kind, uint64_t offset, bool write) {
  if (log_ == nullptr) return;
  char text[16];
  std::snprintf(text, sizeof text, "0x%05llx", static_cast<unsigned long long>(offset));
  log_->count(name_, kind, text, write);
}

uint32_t SemaphoreBlock::read32(uint32_t offset) {
  // The write aliases and the gap read 0; their backing store is never written.
  const bool live = offset < sem::kEvent + kAliasBytes ||
                    (offset >= sem::kRead && offset < sem::kRead + kAliasBytes);
  return live ? *word(offset) : 0;
}

void SemaphoreBlock::write32(uint32_t offset, uint32_t value) {
  const uint32_t index = (offset % kAliasBytes) / sem::kReadStride;
  const uint32_t alias = offset - offset % kAliasBytes;
  if (alias == sem::kEvent) set_event(index, value != 0);
  if (alias == sem::kSet) set(index, value);
  if (alias == sem::kInc) add(index, value);
  if (alias == sem::kDec) add(index, 0u - value);
}

bool SemaphoreBlock::access(uint64_t offset, uint8_t* data, size_t size, bool write, bool debug) {
  if (!write) std::memset(data, 0, size);
  if (offset % 4 != 0 || size != 4) {
    if (!debug) count(AccessLog::Kind::kPartial, offset, write);
    return true;
  }
  const bool gap = offset >= sem::kEvent + kAliasBytes && offset < sem::kRead;
  if (gap && !debug) count(AccessLog::Kind::kUnknown, offset, write);
  if (write && offset - sem::kRead < kAliasBytes && !debug) {
    count(AccessLog::Kind::kDenied, offset, true);
  }
  if (!write) {
    base::store(data, read32(static_cast<uint32_t>(offset)));
  } else if (!debug) {
    write32(static_cast<uint32_t>(offset), base::load<uint32_t>(data));
  }
  return true;
}

}  // namespace hw

#include "hw/core/execution.h"

#include <algorithm>

namespace hw {

const char* CriticalPath::name(size_t part) {
  constexpr const char* kNames[kParts] = {"pe",     "act",      "pool",      "dve",
                                          "sp",     "dma",      "semaphore", "dependency",
                                          "memory", "throttle", "start"};
  return kNames[part];
}

const char* name_of(Stall cause) {
  constexpr const char* kNames[kStalls] = {"semaphore", "dma",   "dependency", "memory",
                                           "psum",      "issue", "throttle"};
  return kNames[static_cast<size_t>(cause)];
}

const char* name_of(PeRate rate) {
  constexpr const char* kNames[kPeRates] = {"16-bit", "float32", "8-bit, two rows", "MX"};
  return kNames[static_cast<size_t>(rate)];
}

void EngineStats::add(const EngineStats& more, const EngineStats& less) {
  instructions += more.instructions - less.instructions;
  busy += more.busy - less.busy;
  for (size_t i = 0; i < kStalls; ++i) stalled[i] += more.stalled[i] - less.stalled[i];
  for (size_t i = 0; i < waited_for.size(); ++i) {
    waited_for[i] += more.waited_for[i] - less.waited_for[i];
  }
  sbuf_read += more.sbuf_read - less.sbuf_read;
  sbuf_written += more.sbuf_written - less.sbuf_written;
  psum_read += more.psum_read - less.psum_read;
  psum_written += more.psum_written - less.psum_written;
  for (size_t i = 0; i < kPeRates; ++i) {
    multiplications[i] += more.multiplications[i] - less.multiplications[i];
  }
}

base::Ps ExecutionLog::start(contract::Engine engine, uint64_t program, base::Ps now,
                             const EngineStats& stats) {
  const uint32_t bit = 1u << engine;
  if (running_ == 0) {
    program_ = program;
    begin_ = now;
    hbm_bytes_ = hbm_.total_bytes();
    started_ = begun_ = 0;
  }
  running_ |= bit;
  // An engine that is started a second time meanwhile goes on with what it had.
  if ((started_ & bit) == 0) before_[engine] = stats;
  started_ |= bit;
  return begin_;
}

bool ExecutionLog::begin(contract::Engine engine, base::Ps now, const EngineStats& stats) {
  const uint32_t bit = 1u << engine;
  if ((running_ & bit) == 0 || (begun_ & bit) != 0) return false;
  if (begun_ == 0) {
    begin_ = now;
    hbm_bytes_ = hbm_.total_bytes();
  }
  begun_ |= bit;
  before_[engine] = stats;
  return true;
}

void ExecutionLog::stop(contract::Engine engine, base::Ps now, const EngineStats& stats,
                        const CriticalPath& path) {
  const uint32_t bit = 1u << engine;
  if ((running_ & bit) == 0) return;
  running_ &= ~bit;
  after_[engine] = stats;
  if (running_ != 0) return;
  auto at = std::find_if(totals_.begin(), totals_.end(),
                         [&](const ExecutionTotals& t) { return t.program == program_; });
  if (at == totals_.end() && totals_.size() < kPrograms) {
    at = totals_.insert(totals_.end(), ExecutionTotals{});
    at->program = program_;
  }
  ExecutionTotals& totals = at == totals_.end() ? totals_.back() : *at;
  const base::Ps time = now - begin_;
  totals.least = totals.count == 0 ? time : std::min(totals.least, time);
  totals.most = std::max(totals.most, time);
  totals.total += time;
  ++totals.count;
  totals.hbm_bytes += hbm_.total_bytes() - hbm_bytes_;
  for (uint32_t e = 0; e < contract::kEnginesPerNc; ++e) {
    if ((started_ >> e & 1) != 0) totals.engines[e].add(after_[e], before_[e]);
  }
  for (size_t i = 0; i < CriticalPath::kParts; ++i) totals.critical[i] += path.parts[i];
}

}  // namespace hw

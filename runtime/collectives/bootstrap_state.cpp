#include "runtime/collectives/bootstrap_state.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "runtime/collectives/types.h"

namespace ccl {
namespace {

// All-gathers that a peer may be ahead of the slowest rank: bounds memory, not use.
constexpr uint32_t kMaxAhead = 4096;

}  // namespace

BootstrapState::BootstrapState(const BootstrapOptions& options, base::UniqueFd wake)
    : options_(options),
      wake_(std::move(wake)),
      left_(options.world, false),
      next_tag_(options.world, 0) {}

base::Status BootstrapState::wait_ready() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return ready_ || failure_; });
  if (failure_) return *failure_;
  return {};
}

BootstrapState::Gather& BootstrapState::gather(uint32_t tag) {
  Gather& g = gathers_[tag];
  g.blobs.resize(options_.world);
  return g;
}

base::Result<uint32_t> BootstrapState::post(Blob blob) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (failure_) return *failure_;
  if (blob.size() > wire::kMaxPayload) {
    return base::Error{base::Fault::kUsage, kNrtInvalid, "bootstrap",
                       "a contribution of " + std::to_string(blob.size()) + " bytes; at most " +
                           std::to_string(wire::kMaxPayload)};
  }
  const uint32_t tag = next_tag_[options_.rank]++;
  Gather& g = gather(tag);
  g.blobs[options_.rank] = blob;
  ++g.count;
  posted_.emplace_back(tag, std::move(blob));
  wake();
  changed_.notify_all();
  return tag;
}

// A contribution is missing that can no longer come.
bool BootstrapState::hopeless(const Gather& g) const {
  for (uint32_t r = 0; r < options_.world; ++r) {
    if (!g.blobs[r] && (left_[r] || left_[0])) return true;
  }
  return false;
}

base::Result<std::vector<Blob>> BootstrapState::collect(uint32_t ticket) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (ticket >= next_tag_[options_.rank]) {
    return base::Error{base::Fault::kUsage, kNrtInvalid, "bootstrap", "unknown ticket"};
  }
  const auto it = gathers_.find(ticket);
  if (it == gathers_.end()) {
    return base::Error{base::Fault::kUsage, kNrtInvalid, "bootstrap", "ticket collected before"};
  }
  Gather& g = it->second;
  changed_.wait(lock, [&] { return g.count == options_.world || failure_ || hopeless(g); });
  if (g.count != options_.world) {
    if (failure_) return *failure_;
    return base::Error{base::Fault::kIo, kNrtFailure, "bootstrap",
                       "a peer left before it took part"};
  }
  std::vector<Blob> out;
  for (auto& blob : g.blobs) out.push_back(std::move(*blob));
  gathers_.erase(ticket);
  return out;
}

void BootstrapState::wake() {
  const uint64_t one = 1;
  // The counter cannot overflow in practice, and a full one wakes all the same.
  [[maybe_unused]] const ssize_t n = ::write(wake_.get(), &one, sizeof one);
}

void BootstrapState::stop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  stop_ = true;
  wake();
}

bool BootstrapState::stopping() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return stop_;
}

void BootstrapState::drain_wake() {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t n = ::read(wake_.get(), &count, sizeof count);
}

void BootstrapState::set_ready(wire::Table table) {
  const std::lock_guard<std::mutex> lock(mutex_);
  table_ = std::move(table);
  ready_ = true;
  changed_.notify_all();
}

void BootstrapState::fail(const base::Error& error) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!failure_) failure_ = error;
  changed_.notify_all();
}

bool BootstrapState::failed() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return failure_.has_value();
}

void BootstrapState::leave(uint32_t rank) {
  const std::lock_guard<std::mutex> lock(mutex_);
  left_[rank] = true;
  changed_.notify_all();
}

bool BootstrapState::has_left(uint32_t rank) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return left_[rank];
}

std::deque<std::pair<uint32_t, Blob>> BootstrapState::take_posted() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!ready_) return {};
  return std::exchange(posted_, {});
}

bool BootstrapState::deliver(uint32_t rank, uint32_t tag, Blob blob) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (rank == options_.rank || tag != next_tag_[rank]) return false;
  if (tag > next_tag_[options_.rank] + kMaxAhead) return false;
  ++next_tag_[rank];
  Gather& g = gather(tag);
  g.blobs[rank] = std::move(blob);
  ++g.count;
  changed_.notify_all();
  return true;
}

void BootstrapState::log(const std::string& text) const {
  if (options_.log) options_.log(text);
}

}  // namespace ccl
